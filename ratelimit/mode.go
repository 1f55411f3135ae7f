package ratelimit

// A Mode is a way to decide requests. Gateways that share a store are in [ModeShared] while it is in use. While it is not, they are in the
// configured one of [ModeLocal], [ModeAllow] and [ModeDeny].
type Mode string

// The modes.
const (
	ModeMemory Mode = "memory" // the memory of the only gateway
	ModeShared Mode = "shared" // the store that gateways share
	ModeLocal  Mode = "local"  // each gateway, by its share of each limit
	ModeAllow  Mode = "allow"  // no store: every request is admitted, and not counted
	ModeDeny   Mode = "deny"   // no store: every request fails with an *[UnavailableError]
)
