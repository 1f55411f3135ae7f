// Command edgebench measures what a request costs at the edge, beside what it costs at a bare grpc-gateway, and beside the least that
// it can cost with the parts that the edge is made of (package floor): all stand in front of the same backend and are loaded in turn, on
// loopback, by the same client.
//
//	go run .                        compare, and print the table
//	go run . -enforce               also exit 1 where the edge misses its bar
//	go run . -backend reference     put the reference backend with its demo data behind both
//	go run . overload               ask the edge more than it can answer, and print how those fare that it lets in
//
// The figure that counts is the CPU time of the edge's process for a request (user and system): requests a second and
// latencies on a shared machine say as much of the neighbours. The edge runs as users run it: authentication, limits (high
// enough never to refuse), access logs and metrics are on.
//
// Times come from /proc, so this runs on Linux only. It starts all that it needs on free ports of 127.0.0.1, stops what it
// started and nothing else, and is done within two minutes.
//
// Its parts can be run by hand: `go run . serve-backend`, `go run . serve-bare ADDRESS` and `go run . serve-floor ADDRESS TEAM` log where
// they listen.
package main
