// Package ratelimit decides whether a token may make a request now. A policy is a list of limits, and a request is admitted
// only if every one of them admits it.
//
// The limits are strict: in no interval of a limit's length, wherever it begins, are more requests admitted than it allows.
// All limits are decided and spent in one step, and a refusal spends nothing in any of them. What is remembered of a token
// does not grow with its limits.
//
// How the promise is kept within that memory: of the newest admissions, up to [MaxExact], the times are known, and limits of
// up to that many requests are decided by them exactly. Larger limits count admissions in buckets of a sixtieth of their
// length; a bucket counts in full until the last instant that it may hold has left the window, so a larger limit may be up to
// a sixtieth of its length too cautious, and is never too generous.
//
// What is done with a decision, and how it is told to a client, is left to the gateway.
package ratelimit
