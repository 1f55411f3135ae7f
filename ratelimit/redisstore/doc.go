// Package redisstore keeps the accounts of tokens in a Redis that gateways share: a single server,
// a master behind Sentinel, or a cluster. [Store] is a [ratelimit.Store] with the clock of the
// Redis server.
//
// A token has one key; the value is the account of package ratelimit. [Store.Exchange] is one
// EVALSHA of one script, lua/account.lua. Concurrent calls to a server are sent in batches. No call
// takes longer than the client's timeout, waiting included, and none is executed twice;
// docs/develop/rate-limiter.md has the rules under "The four calls". Callers handle outages of
// Redis; see package failover.
//
// [Store.Run] receives the refunds and resets of all gateways, for callers that cache denials.
package redisstore
