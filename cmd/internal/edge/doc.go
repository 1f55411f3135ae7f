// Package edge runs a gateway with a configuration. It is the only package that connects the concrete gateway, authenticator, limiter and
// clients; they see each other through interfaces at most.
//
// [Listen] reports every error of a configuration before a request is served. At shutdown the gateway first reports that it drains on its
// readiness page, and serves until load balancers have noticed. Then it accepts no more connections, waits for the requests in flight, and
// releases its resources. No goroutine remains.
//
// A changed configuration is applied as a whole or not at all: everything that a request needs is in one snapshot, which is built beside
// the active one and never changes. See docs/reload.md.
package edge
