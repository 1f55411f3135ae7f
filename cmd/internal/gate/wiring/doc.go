// Package wiring builds a gateway from a configuration, and runs it. It is the only package that
// connects the concrete gateway, authenticator, limiter and clients, which depend on each other
// only through interfaces. [Listen] reads from top to bottom: each part is built from parts that
// exist. If two parts need each other, one of the two gets the other when it runs.
//
// [Listen] reports every error of a configuration before a request is served. At shutdown the
// readiness page first reports that the gateway drains, and the gateway serves until load balancers
// have noticed. Then it accepts no more connections, waits for the requests in flight, and releases
// its resources. No goroutine remains.
//
// A changed configuration is applied as a whole or not at all: everything that a request needs is
// in one snapshot. A new snapshot is built while the active one serves; a snapshot never changes.
// See docs/operate/reload.md.
package wiring

//go:generate go test -count=1 -run EveryRegisteredMetric -update
