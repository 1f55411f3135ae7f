// Package membership counts the gateways that share a Redis, by heartbeats, so that each has its
// share of the limits during an outage. Beside the heartbeats it reads whether Redis evicts keys,
// and [Check] does once what a gateway does with a Redis. Package redisstore, beside it, counts
// requests.
package membership
