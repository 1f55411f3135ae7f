// Package decode reads the queries and JSON bodies of requests. A Query or a Body decodes one
// parameter or field after the other, and collects the problems of all, so that one response
// reports them. The cost is linear in the size of the input and bounded by the limits of
// docs/integrate/contract.md. The package does not access the network: it gets a query or a body
// that was read.
package decode
