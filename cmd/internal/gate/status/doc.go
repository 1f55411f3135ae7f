// Package status reports the state of a running gateway to its admin pages: the dependencies and why one is not ready, limits that are
// exceeded, the state of a token and the response that a request with it would get, and the gateways that share a Redis. It reads the parts
// of the gateway and changes none, except that an operator can reset the limits of a token.
package status
