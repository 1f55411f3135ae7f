// Package limiters compares the limiter of the gateway with others that share a Redis, in one run:
// the CPU time of a decision on two limits in the client and in Redis, the memory of a token, and
// what each admits in the worst second of a flood. make bench-limiters runs it.
package limiters
