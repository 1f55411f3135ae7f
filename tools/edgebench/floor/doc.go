// Package floor is the least that an edge of these parts can cost: net/http, Gin, and one call of a service, with an answer that is
// encoded beforehand. No token, no limit, no deadline, no log, no metric, no breaker, no header of ours. What the edge costs more than
// that is the edge's own.
package floor
