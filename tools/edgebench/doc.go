// Command edgebench compares the cost of a request in the edge with two baselines: a bare grpc-gateway, and the cheapest edge with the same
// libraries (package floor). All three call the same backend, and the same client loads one after the other over loopback.
//
//	go run .                        compare, and print the table
//	go run . -enforce               also exit 1 if the edge misses its bar
//	go run . costs                  measure what `opsgate size` assumes, and exit 1 if that is wrong
//	go run . overload               send the edge more requests than it can answer, and print the outcome of the admitted ones
//
// The result is the CPU time of the edge's process for each request (user and system): on a shared machine, rates and latencies depend on
// other processes. The edge runs in its usual configuration: with authentication, limits (too high to deny a request), access logs and
// metrics.
//
// CPU times come from /proc, so edgebench runs only on Linux. It starts all processes that it needs on free ports of 127.0.0.1, stops only
// those, and takes less than two minutes.
//
// Its parts can run alone and log their addresses: `go run . serve-backend`, `go run . serve-bare ADDRESS` and
// `go run . serve-floor ADDRESS TEAM`.
package main
