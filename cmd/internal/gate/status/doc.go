// Package status reports the state of a running gateway to its admin pages: the dependencies and why one is not ready, the overload of a
// limit, the state of a token and what a request of it would get, and the gateways that share a Redis. It reads the parts of the gateway and
// changes none, except that an operator can reset the limits of a token.
package status
