// Package demand records who asked when and what the limits made of it, and tells what other limits would have made of it.
//
// A recorder samples whole tokens: of a token that is in the sample every request is recorded, so that its budgets can be
// computed again; of all others nothing is. Which tokens those are depends on their ids and the share alone, so all gateways record
// the same ones, and go on with them after a restart. A record never holds a token, only its id.
//
// The record is a ring of two files of JSON lines, FILE and the older FILE.1, whose size is bounded. Recording never makes a
// request wait: what cannot be written is counted, and dropped.
//
// A replay simulates limits with a store in memory whose clock is that of the record. It knows nothing of how clients would have
// behaved under other limits.
package demand
