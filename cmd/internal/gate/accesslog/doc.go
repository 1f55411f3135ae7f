// Package accesslog reads the access lines of gateways, in any order: it counts usage, decides the
// requests under other limits, and finds the smallest limits that suffice.
//
// A log is complete but for lines that a gateway suppressed or dropped, whose number it has. One
// that is sampled or has only failures is refused. Times are of the clocks of the gateways: a
// request was decided at the time of its line less its latency. Other limits are simulated with a
// memory store whose clock is the log's; how clients would have behaved, and resets of a token's
// usage, are not.
package accesslog
