// Package timings records how long one request waits for the identity service, the limiter and the
// internal service. Each measures its own calls and adds the time to the Timings in the request's
// context. Without Timings in the context, nothing is recorded. [Observe] adds a duration to a
// metric.
package timings
