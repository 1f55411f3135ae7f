// Package authn resolves the bearer token of a request to its principal.
//
// A malformed token is refused without a call. A confirmed token is accepted for half a minute
// without waiting for a lookup; while it is in use, it is looked up again in the background. A
// revoked token is refused as soon as the revocation stream reports it. An outage of the identity
// service never makes a token invalid: cached tokens are accepted for a limited time, other
// requests get [ErrUnavailable]. Tokens are hashed on arrival; neither a token nor its hash is part
// of an error, a log line or a metric.
//
// A token is known if it was confirmed here, or is revoked, and is still cached; else it is
// unknown. Lookups of unknown tokens are limited and divided among source networks, which are the
// IPv4 /24 and IPv6 /64 networks that requests come from; see fairQueue. Lookups of known tokens
// are never queued.
//
// The caller compares scopes, and handles HTTP except for the value of the Authorization header.
// The decisions are in docs/platform/authentication.md.
package authn
