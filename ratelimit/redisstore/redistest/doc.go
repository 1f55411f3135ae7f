// Package redistest runs real Redis servers for tests: a single server, a cluster of three masters,
// or a master and a replica with three sentinels. They listen on free ports of the loopback
// interface, keep no data on disk, and end with the test. A server can be killed, restarted empty,
// paused and resumed.
//
// Where redis-server is not installed, tests are skipped; with CI set in the environment they fail.
package redistest
