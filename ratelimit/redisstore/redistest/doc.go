// Package redistest runs real Redis servers for tests: one alone, a cluster of three masters, or a master with a replica that sentinels
// watch over. They listen on free ports of the loopback interface, keep no data on disk, and end with the test. A server can be killed,
// restarted empty, frozen and thawed.
//
// Where redis-server is not installed, tests are skipped; with CI set in the environment they fail.
package redistest
