// Package failover is the rate limit store of a gateway that shares limits with other gateways. It calls the shared store, and decides by
// the gateway's share of each limit while the shared store is not in use.
//
// Each token is in one of four states:
//
//	shared ──an outage begins─────▶ local ──it ends──▶ paused ──the pause is over──▶ syncing
//	  ▲  └───a call was not executed, or accounts may be lost─────────────────────▶   │
//	  └──────────────────all is uploaded──────────────────────────────────────────────┘
//
// From paused, a token with nothing to upload returns to shared. The next outage makes every token local.
//
// In shared, the shared store decides; a denial is cached until its retry-after is over. In local, this gateway decides by its share of
// what remains in the cached account. In paused, it does so too, as other gateways may have admissions to upload, and meanwhile uploads its
// own. In syncing, the next request of the token uploads what the shared store may lack: the account that it last returned, and the
// admissions of this gateway.
//
// While the shared store hangs, a few requests wait for its timeout. docs/operate/store-failure.md lists the guarantees and their limits.
package failover
