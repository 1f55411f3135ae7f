// Shows the operations of the API with fields to call them. The token that a reader pastes stays in the memory of this page.
//
// The query of the page has the parameters of the operation in the fragment, so that a link opens a request with its values:
// ?id=…#/Servers/v1GetServer.
"use strict";

const base = new URL("../..", location.href).href.replace(/\/$/, "");
const requested = new URLSearchParams(location.search);

showTheme();
start();

// showTheme applies the choice of the documentation, or else that of the system.
function showTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = () => { document.documentElement.dataset.theme = chosenTheme() ?? (system.matches ? "dark" : "light"); };
  system.addEventListener("change", show);
  show();
}

function chosenTheme() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null; // the browser allows the page no storage
  }
}

async function start() {
  const response = await fetch(base + "/openapi.json");
  const spec = await response.json();
  delete spec.servers; // the policy of this page allows requests to its own host only, which is the default
  const operations = operationsOf(spec);
  prefill(spec, operations);
  SwaggerUIBundle({
    spec,
    domNode: document.getElementById("description"),
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [readerPlugin],
    layout: "BaseLayout",
    deepLinking: true,
    tryItOutEnabled: true,
    defaultModelsExpandDepth: -1, // the documentation has the schemas
    displayRequestDuration: true,
    persistAuthorization: false,
    requestInterceptor: addIdempotencyKey,
    requestSnippetsEnabled: true, // the command after a call, in place of the one with the token
    requestSnippets: { generators: { curl: { title: "curl", syntax: "bash" } }, languages: ["curl"] },
    validatorUrl: null, // the default is another host
  });
}

// operationsOf returns the operations by their ids, and gives each its own copies of its parameters.
function operationsOf(spec) {
  const operations = new Map();
  for (const [path, item] of Object.entries(spec.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      if (!operation.operationId) continue;
      operation.parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map((parameter) => {
        const name = parameter.$ref?.split("/").pop();
        const copy = { ...(name ? spec.components.parameters[name] : parameter) };
        if (copy.name === "Idempotency-Key") copy.description += " **This page sends a new random key with each call while the field is empty.**";
        return copy;
      });
      operations.set(operation.operationId, { path, method, parameters: operation.parameters });
    }
    delete item.parameters;
  }
  return operations;
}

// prefill puts the values of the page's query into the fields of the operation in the fragment.
function prefill(spec, operations) {
  for (const parameter of linked(operations)?.parameters ?? []) {
    if (parameter.in !== "header" && requested.has(parameter.name)) {
      parameter.example = requested.get(parameter.name);
    }
  }
}

// linked returns the operation in the fragment, if there is one.
function linked(operations) {
  return operations.get(location.hash.split("/").pop());
}

// addIdempotencyKey adds a new key to a POST for which the reader has not entered one.
function addIdempotencyKey(request) {
  if (request.method === "POST" && !request.headers["Idempotency-Key"]) {
    const random = crypto.getRandomValues(new Uint8Array(16)); // randomUUID exists only on https
    request.headers["Idempotency-Key"] = Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }
  return request;
}

// readerPlugin keeps the values of fields in the URL, and replaces the ids of examples by ids of the reader's team.
function readerPlugin() {
  const after = (then) => (original, system) => (...values) => {
    const result = original(...values);
    then(system, ...values);
    return result;
  };
  return {
    fn: { requestSnippetGenerator_curl: withoutToken },
    statePlugins: {
      spec: { wrapActions: { changeParamByIdentity: after(onField) } },
      auth: { wrapActions: { authorize: after((system) => ids.forEach((field) => useOwnId(system, field))) } },
    },
  };
}

// withoutToken returns the curl command of a request, with a variable in place of the token, so that it can be shared.
function withoutToken(request) {
  const shown = request.setIn(["headers", "Authorization"], "Bearer $OPS_TOKEN");
  const command = SwaggerUIBundle.plugins.RequestSnippets().fn.requestSnippetGenerator_curl_bash(shown);
  return command.replace("'Authorization: Bearer $OPS_TOKEN'", '"Authorization: Bearer $OPS_TOKEN"');
}

const ids = new Map(); // the fields for ids in paths, by the operation

// onField handles a new value of a field: an entry of the reader, or a default when the field appears.
function onField(system, operation, parameter, value) {
  const { in: place, name, example } = parameter.toJS();
  const field = { operation, parameter, example, value };
  if (place === "path") {
    ids.set(operation.join(" "), field);
    useOwnId(system, field);
  }
  if (place !== "header" && value !== own.get(field.operation[0])) keepInURL(name, value, example);
}

// keepInURL writes the value of a parameter into the query of the page, except for a default.
function keepInURL(name, value, example) {
  const url = new URL(location.href);
  if (value === example && !url.searchParams.has(name)) return;
  if (value) {
    url.searchParams.set(name, value);
  } else {
    url.searchParams.delete(name);
  }
  history.replaceState(null, "", url);
}

const lists = new Map(); // the ids of each list, by its path and the token
const own = new Map(); // the id that replaced an example, by the path of the operation

// useOwnId puts the first id of the matching list into a field, if it has the id of the example, which the reader's team does not have.
async function useOwnId(system, { operation, parameter, example, value }) {
  const token = system.authSelectors.authorized().toJS().bearerAuth?.value;
  if (!token || value !== example || requested.has(parameter.get("name"))) return;
  const list = operation[0].split("/{")[0];
  const key = list + " " + token;
  if (!lists.has(key)) lists.set(key, idsOf(list, token));
  const found = await lists.get(key);
  if (found.length === 0 || found.includes(example)) return;
  own.set(operation[0], found[0]);
  system.specActions.changeParamByIdentity(operation, parameter, found[0]);
}

// idsOf returns the ids of a list, or none if the token may not read it.
async function idsOf(list, token) {
  const response = await fetch(base + list, { headers: { Authorization: "Bearer " + token } });
  if (!response.ok) return [];
  const body = await response.json();
  return (body.items ?? body).map((item) => item.id);
}
