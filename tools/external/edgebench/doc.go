// Command edgebench compares the cost of a request in the edge with three others, on the same
// backend and in the same run: a bare grpc-gateway; with limits in Redis, the edge that a user
// would build of it; and the floor, the cheapest edge with the same libraries.
//
//	go run .                  compare, and print the table
//	go run . -store redis     the same with limits in a redis-server that it starts
//	go run . -enforce         also exit 1 if the edge misses a bar
//
// The result is the CPU time of the edge's process for each request (user and system): on a shared
// machine, rates and latencies depend on other processes. The edge runs in its usual configuration:
// with authentication, limits (too high to deny a request), access logs and metrics. CPU times come
// from /proc, so edgebench runs only on Linux. It starts all processes that it needs on free ports
// of 127.0.0.1, stops only those, and takes less than two minutes.
//
// Package limiters compares the limiter alone with others that share a Redis.
package main

//go:generate go tool -modfile=../../go.mod buf generate
