// Package ratelimittest is the conformance suite that every ratelimit.Store passes. It holds a store against an oracle that
// keeps the time of every admission, under generated schedules of requests, waits, refunds, steps of the clock and changes of
// policy, and runs the scenarios of the limiter's specification.
package ratelimittest
