// Package redisclient makes clients of the Redis that gateways share: a single server, a master
// behind Sentinel, or a cluster. Their calls have short timeouts and are not repeated; those that
// are made at the same time are sent in batches.
package redisclient
