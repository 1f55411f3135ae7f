// Package floor implements the cheapest edge with the same libraries: net/http, Gin, and one call of a service, with a response that is
// encoded in advance. It has no authentication, limits, deadlines, logs, metrics or circuit breakers. These cause the difference between
// its cost and the cost of opsgate.
package floor
