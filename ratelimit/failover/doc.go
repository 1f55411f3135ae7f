// Package failover is the rate limit store of a gateway that shares limits with other gateways. It calls the shared store, and decides by
// the gateway's share of each limit while the shared store is not in use.
//
// Each token is in one of three states:
//
//	shared ──an outage begins─────────────▶ local ──the outage ends──────▶ syncing
//	  ▲  └───a call was not executed──────▶ syncing ◀──────────────────────┘  │
//	  └──────────────all is uploaded, and the pause is over───────────────────┘
//
// In shared, the shared store decides; a denial is cached until its retry-after is over. In local, this gateway decides by its share of
// what remains in the cached account. In syncing, the next request of the token uploads what the shared store may lack: the account that it
// last returned, and the admissions of this gateway. After an outage, gateways continue to decide by their shares for a pause, in which all
// of them upload.
//
// While the shared store hangs, a few requests wait for its timeout. docs/operate/store-failure.md lists the guarantees and their limits.
package failover
