// Package authn turns the bearer token of a request into the principal that it stands for.
//
// It promises that a malformed token is refused without asking anybody, that a token which the identity service has
// confirmed is not asked about again for half a minute, that a revoked one is refused as soon as the revocation stream says
// so, and that an identity service which cannot answer never makes a token invalid: known tokens go on for a bounded time,
// unknown ones get [ErrUnavailable]. The plaintext of a token is hashed on arrival and goes no further; neither it nor its
// hash is in an error, a log line or a metric.
//
// What a principal may do is left to the caller, who compares scopes at every request, and so is everything of HTTP beyond
// the value of the Authorization header. See docs/authentication.md for what was decided and what was rejected.
package authn
