// Package apidocs has the documentation of the public API: the OpenAPI document, the pages below
// /docs/, their Markdown forms, the search index and llms.txt. The command apidocsgen renders them,
// by package site, from the OpenAPI document of package openapi and the guides in the folder
// guides.
//
// The pages can be read without a script. They load scripts and styles only from the host that
// serves them, and have no inline code, so that a strict Content-Security-Policy holds. The base
// URL of the API is openapi.PlaceholderURL in them; see New.
package apidocs
