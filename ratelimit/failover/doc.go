// Package failover is the store of rate limits of a gateway that shares them with other gateways. It asks the shared store, and limits by
// this gateway's part while that is not in use.
//
// Each token is in one of three states:
//
//	shared ──an outage begins─────────────▶ local ──the outage ends──────▶ syncing
//	  ▲  └───a call failed, not executed──▶ syncing ◀──────────────────────┘  │
//	  └──────────────all is uploaded, and the pause is over───────────────────┘
//
// In shared, the shared store decides; a denial is repeated from the kept account until its time. In local, this gateway decides by its
// share of what the kept account leaves. In syncing, the token's next request uploads what the shared store may lack: the account that it
// last returned, and what this gateway admitted by itself. After an outage, gateways go on deciding by their shares for a pause, in
// which all of them upload.
//
// A shared store that does not answer costs a few requests its time-out. docs/store-failure.md has what is promised and what is not.
package failover
