// Package samples renders the code of one API call in curl, Python, TypeScript, Go and Java, for
// the documentation.
//
// A sample is a complete program that needs nothing to be installed beyond the language itself. It
// takes the token from the environment variable OPSCTL_TOKEN, sends a random Idempotency-Key with a
// POST, prints the JSON of the response, and fails with the response if the status is not 200. The
// base URL is openapi.PlaceholderURL, which package apidocs replaces.
//
// Requests has the example request of each operation, from the examples of the OpenAPI document.
// The package does not describe responses.
package samples
