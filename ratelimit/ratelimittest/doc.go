// Package ratelimittest is the conformance suite of ratelimit.Store. It compares a store with an oracle that keeps the time of every
// admission, under generated schedules of requests, waits, refunds, resets, changes of the clock and changes of policy, and runs fixed
// scenarios.
package ratelimittest
