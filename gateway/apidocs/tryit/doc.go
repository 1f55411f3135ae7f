// Package tryit embeds the page /docs/try/, on which a reader calls the API: Swagger UI with the OpenAPI document of this host.
package tryit
