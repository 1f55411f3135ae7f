// Package redisstore keeps the accounts of tokens in a Redis that gateways share: a single server, a master behind Sentinel, or a cluster.
// [Store] is a [ratelimit.Store] with the clock of the Redis server.
//
// A token has one key; the value is the account of package ratelimit. [Store.Exchange] is one EVALSHA of one script, lua/account.lua. The
// script merges the upload of the gateway, decides all limits together, writes the account if it changed, and returns it. The decision is
// computed from the account. A value that is not an account is replaced.
//
// Concurrent calls to a server are sent in batches, of which at most two are in flight. Each call has its own result.
//
// [Store.Run] receives the refunds and resets of all gateways, for callers that cache denials.
//
// No call takes longer than the client's timeout, waiting included, and none is executed twice: a call is repeated only if a server did not
// have the script or the key, is a replica, or has left the cluster. A call that waits when the server hangs fails without being sent.
// Callers handle outages of Redis; see package failover.
package redisstore
