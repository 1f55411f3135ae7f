// Package admin serves the admin listener: liveness, readiness, metrics, profiles, the page of the
// gateway's state with its runbooks, the explanation of a request, the limits of a token, and the
// configuration in force.
//
// Ready means that the gateway serves requests. An unavailable internal service makes the gateway
// degraded, but not unready: the other services and cached tokens still work, and load balancers
// that removed every gateway would turn a partial outage into a full one. A gateway that shuts down
// is not ready, while it still serves.
//
// Every path except the two probes and the HTML documents requires the configured credentials: a
// token, a client certificate, or both. The documents contain no data of the gateway: the page asks
// for the token and reads the state once a second. Requests that a browser sends for another site
// are rejected.
//
// The package reads the parts of the gateway and changes none, except that an operator can reset
// the limits of a token. The history of traffic is sampled from the process' own metrics every few
// seconds into bounded memory, so the request path does no work for it. Everything else is read
// only when a client asks, and the state at most twice a second for all clients.
package admin

//go:generate go -C ../../../.. run ./cmd/internal/gate/admin/runbooksgen
