// Package decode reads the queries and JSON bodies of requests. A Query or a Body decodes one
// parameter or field after the other and collects all problems, so that one response reports all of
// them. The cost is linear in the size of the input and bounded by the limits of
// docs/integrate/contract.md. The package does not read from the network: its input is in memory.
// Package gateway has further tests, with the parameters and fields of the routes.
package decode
