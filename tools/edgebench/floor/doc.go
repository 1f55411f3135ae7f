// Package floor is the least that an edge of these parts can cost: net/http, Gin, and one call of a service, with a response that is
// encoded in advance. It has no authentication, limits, deadlines, logs, metrics or breakers. The cost of the edge above the floor is the
// edge's own.
package floor
