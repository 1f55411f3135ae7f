// Package admin serves the admin listener: probes, metrics, profiles, the page of the gateway's
// state with its runbooks, the explanation of a request, the limits of a token, and the
// configuration.
//
// Ready means that the gateway serves requests. A gateway that has just started is not ready until
// it has reached services. Later, an unavailable internal service makes the gateway degraded, but
// not unready: the other services and cached tokens still work, and load balancers that removed
// every gateway would turn a partial outage into a full one.
//
// Every path except probes and HTML documents requires the configured credentials; the documents
// contain no data of the gateway. Nothing changes the gateway, except that an operator can reset
// the limits of a token. The request path does no work for the package: traffic is sampled from the
// process' own metrics into bounded memory, and the rest is read when a client asks.
//
// The folder runbooks has the pages of docs/operate/runbooks as HTML; runbooksgen generates them.
package admin

//go:generate go -C ../../../.. run ./cmd/internal/gate/admin/runbooksgen
