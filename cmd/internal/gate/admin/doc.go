// Package admin serves the admin listener: liveness, readiness, metrics, profiles, the explanation of a request, the limits of a
// token, and the configuration in force.
//
// Ready means that the gateway serves requests. An unavailable internal service makes the gateway degraded, but not unready: the
// other services and cached tokens still work, and load balancers that removed every gateway would turn a partial outage into a
// full one. A gateway that shuts down is not ready, while it still serves.
//
// Every path except the two probes and the HTML page requires the configured credentials: a token, a client certificate, or both.
// Requests that a browser sends for another site are rejected. The package reads limits, routes and configuration from an
// [Inspector], which package wiring provides.
package admin
