// Package failover is the rate limit store of a gateway that shares limits with other gateways. The
// gateway is in one of two states; a token has none of its own:
//
//	        three failures in a row, or half of the calls
//	shared ───────────────────────────────────────────────▶ local
//	   ▲                                                       │
//	   └──────────────── a probe succeeds ─────────────────────┘
//
// In shared, each decision is one call of the shared store. The gateway keeps the account that it
// returned, and a denial until that ends. In local, the gateway decides by its share of what
// remains in that account, and keeps its own admissions. The next call for the token in shared
// carries them; an upload is sent once. A call that fails is decided as in local, that once.
//
// docs/develop/rate-limiter.md has more, and the errors that remain.
package failover
