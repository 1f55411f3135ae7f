// Package demand records requests and what the limits decided, and replays a record under other limits.
//
// A recorder samples whole tokens: it records every request of a token in the sample, so that its limits can be computed again, and
// no request of other tokens. Whether a token is in the sample depends on its id and the size of the sample alone, so all gateways record
// the same tokens, also after a restart. A record has ids of tokens, never tokens.
//
// A record is a ring of two files of JSON lines of bounded size, FILE and the older FILE.1. Recording never makes a request wait: events
// that cannot be written are counted and dropped.
//
// A restart interrupts a record unless it is in order: nothing is lost of what the gateway decided and counted. That no gateway served
// without a record in the short time between is assumed; the record cannot show it.
//
// An audit counts the recorded admissions in every window of the limits in force. A suggestion is the smallest limits that would have
// denied at most a part of the recorded requests.
//
// A replay simulates limits with a memory store that uses the times of the record as its clock. It does not model how clients would have
// behaved under other limits.
package demand
