// Package endpoints finds the addresses of a service, distributes calls to them, and ejects
// endpoints that fail while others succeed.
//
// A [Set] has the endpoints of one connection to a service: it resolves the name, and is the
// connection's balancer. A call goes to the endpoint with the fewest calls in flight, of those that
// are connected, healthy, answering and not ejected. An endpoint is ejected for a while if its
// calls fail while calls of the same teams to other endpoints succeed. The caller decides what a
// failed call means ([Call]), and makes the probes.
//
// Package backendclient tests the set with servers: balance_test.go, ejection_test.go,
// probe_test.go, resolver_test.go and unreachable_test.go.
package endpoints
