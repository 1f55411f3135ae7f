// Package authn turns the bearer token of a request into the principal that it stands for.
//
// It promises that a malformed token is refused without a call, that a token which the identity service has confirmed is not looked up
// again for half a minute, that a revoked one is refused as soon as the revocation stream reports it, and that an identity service which
// cannot answer never makes a token invalid: cached tokens are used for a bounded time, others get [ErrUnavailable]. The plaintext of a
// token is hashed on arrival and goes no further; neither it nor its hash is in an error, a log line or a metric.
//
// A token is known if it was confirmed here and is still cached, else unknown. Look-ups of unknown tokens are bounded and divided among
// source networks, which are the IPv4 /24 and IPv6 /64 networks that requests come from; see fairQueue. Look-ups of known tokens do not
// queue with them.
//
// What a principal may do is left to the caller, who compares scopes at every request, and so is everything of HTTP beyond
// the value of the Authorization header. See docs/authentication.md for what was decided and what was rejected.
package authn
