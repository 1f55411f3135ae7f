// Package ratelimittest is the conformance suite of ratelimit.Store. It compares gateways that
// share accounts with an oracle that keeps the time of every admission, under generated schedules
// of requests to gateways with different limits, waits, refunds, resets, changes of the clock and
// changes of policy, and runs fixed scenarios.
package ratelimittest
