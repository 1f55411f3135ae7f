// Package openapi holds the public description of the API, and serves it to people and programs.
//
// openapi.yaml is written by hand and is the one public description. The package embeds it, converts it to JSON, and lays
// a page beside it that shows it and tries it out. It promises that no page calls another host and that every script and
// style comes from this host, so that the strictest Content-Security-Policy holds.
//
// That the description is true is the business of the package openapitest, which holds responses against it. How pages travel
// (status, caching, request ids) is left to the gateway.
package openapi
