// Package edge makes a running gateway of a configuration. It is the only place where the concrete gateway, authenticator,
// limiter and clients meet; each of them knows the others at most as an interface.
//
// It promises an orderly life. Everything that can be wrong is found by [Listen], before anything is served. A gateway that is
// told to end first says so on its readiness page and goes on serving until load balancers have noticed, then takes no new
// connections, lets requests in flight end, and lets go of everything. Nothing that it started outlives it.
//
// And it promises that a changed configuration is taken over whole or not at all. All that a request needs to know hangs on one
// pointer to a snapshot, which is built beside the one in force and never changes; see docs/reload.md.
package edge
