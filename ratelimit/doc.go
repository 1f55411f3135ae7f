// Package ratelimit decides whether a token may make a request now. A policy is a list of limits, and a request is admitted
// only if every one of them admits it.
//
// The limits are strict: in no interval of a limit's length, wherever it begins, are more requests admitted than it allows. All limits are
// decided in one step, and a denial is recorded in none of them.
//
// The usage of a token is an [Account] of bounded size. Limits of up to [MaxExact] requests are decided by the times of single admissions.
// Larger limits count admissions in buckets of a sixtieth of their window; a bucket is counted until the last instant that it may hold
// has left the window, so a larger limit denies for up to a sixtieth of its window too long, and never admits too much.
//
//   - account.go encodes accounts, usage.go decides on them.
//   - rebase.go carries usage over to another policy, and takes refunds out.
//   - shared.go has what gateways do with accounts that they share: read decisions, merge accounts, and decide by a share.
//   - memory.go is the store of a single gateway; package redisstore is that of several, and package failover decides while Redis is away.
package ratelimit
