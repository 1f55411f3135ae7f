// Package redisstore keeps the accounts of tokens in a Redis that gateways share: a single server, one behind Sentinel, or a cluster.
// It is a [ratelimit.Store] by the Redis server's clock.
//
// A token has one key, and its value is the account of package ratelimit. [Store.Exchange] is one EVALSHA of one script,
// lua/account.lua: it merges the upload of the gateway, decides by all limits together and writes the account where it changed. The
// account comes back with the decision; waits and what remains are computed from it here. A value that is no account is replaced.
//
// [Store.Run] receives the refunds and resets of all gateways, for a caller that caches denials.
//
// No call takes longer than the client's time-out, and none is executed twice: only where Redis does not have the script is it sent
// again, with the script. What to do while Redis is not available is up to the caller.
package redisstore
