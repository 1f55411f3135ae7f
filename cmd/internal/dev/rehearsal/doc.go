// Package rehearsal disturbs the public API reproducibly and scores how a client reacts. It is part of opsdev only.
//
// A [Rehearsal] wraps the handler of the gateway. It plans a disturbance for each logical request from the seed, the token and the requests
// that the token has sent before, never from the time, and records each request and answer in a journal of bounded size. [Evaluate] is a
// pure function of the journal and of what the client reports. Without enough evidence an item is not judged.
//
// A logical request is a request with all its repeats: the same token, method, URL and idempotency key. At most two answers in a row to a
// logical request are failures of the rehearsal, so a client that repeats a request twice always gets through.
//
// Terms: a failure is an answer that the client must repeat the request for (429, 503, or a connection that is cut); a change is an answer
// that the client must accept as it is (a new field, a new value, a delay, a restarted list, a replay).
package rehearsal
