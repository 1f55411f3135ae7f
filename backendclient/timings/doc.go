// Package timings records how long one request waits for the parts that it passes: each part measures its own calls and adds the
// time to the Timings in the request's context. Without Timings in the context, nothing is recorded.
package timings
