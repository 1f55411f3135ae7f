// Package redisstore keeps what tokens spent in a Redis that gateways share: a single server, one behind Sentinel, or a cluster.
// It is a [ratelimit.Store] by the Redis server's clock.
//
// All that is remembered of a token is one string under one key, and a decision is one EVALSHA of a script that reads it and,
// when it admits, writes it. So limits are decided and spent together, whoever else asks. The string begins with the limits that
// it was written under; under others, the script brings it into the new form with all that was spent.
//
// A refusal is remembered here until the token may be admitted again, and repeated without asking Redis. What makes it void
// before that, a refund or a reset by any gateway, is published by Redis to all.
//
// No call takes longer than the client's time-out, and none is tried twice, but where Redis says that it has not run a script
// which it does not know. What to do while Redis is away is left to others; [Store.Settle] is for the time after.
package redisstore
