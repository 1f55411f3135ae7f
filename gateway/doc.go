// Package gateway is the public HTTP edge: the route table, the checks of each request, the views
// that write resources, and the error contract.
//
// The engine matches a request with a row of the route table. The stages in pipeline.go check the
// request in the order of docs/integrate/contract.md. The row's handler decodes the request, calls
// one internal service and returns a reply or an error. makeresponse.go makes the response from the
// reply or the error; handlers do not access the response writer.
//
// Package decode reads queries and bodies, and package responses sends responses. Packages authn,
// ratelimit and backendclient resolve tokens, decide limits and call services.
package gateway
