// Package ratelimit decides whether a token may make a request now. A policy is a list of limits; a
// request is admitted only if every enforced limit admits it.
//
// Limits are strict sliding windows: no interval of a limit's length, wherever it begins, has more
// admissions than the limit allows. All limits are decided in one step. A denial is recorded in
// none of them. docs/develop/rate-limiter.md describes the usage of a token, an [Account] of
// bounded size, and decisions. Package redisstore is the store of several gateways, and package
// failover decides while it is not available.
package ratelimit
