// Package endpoints finds the addresses of a service, distributes calls to them, and ejects those
// that fail alone.
//
// A [Set] has the endpoints of one connection to a service: it resolves the name, and is the
// connection's balancer. A call goes to the endpoint with the fewest calls in flight, of those that
// are connected, healthy, answering and not ejected. An endpoint is ejected for a while if its
// calls fail while calls of the same teams to other endpoints succeed. What a failed call means is
// decided by the caller ([Call]), who also makes the probes.
package endpoints
