// Shows the description of the API. The token that a reader pastes stays in the memory of this page.
"use strict";

SwaggerUIBundle({
  url: "../../openapi.json",
  domNode: document.getElementById("description"),
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  persistAuthorization: false,
  validatorUrl: null, // the default is another host
});
