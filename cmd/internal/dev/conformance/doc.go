// Package conformance checks implementations of the internal services against the contract in
// proto. It calls them as the gateway does, and reports for each method which sentences of the
// contract they keep.
//
// A rule is a row: a name, a sentence of the contract, the methods that it holds for, and a
// function that checks one of them. [Checks] returns a check for each rule and each of its methods.
// The methods and the fields of their messages come from the protos, so a rule for every method, or
// for every request with a certain field, also holds for methods that are added later. Rows of
// other tables become rules:
//
//   - a bound is a field of requests with values that are INVALID_ARGUMENT (bounds.go);
//   - a list is the order of a method's rows, and whether the fixtures may have their number (order.go);
//   - a keyCase is a sequence of calls with one idempotency key, and the outcome of each (keys.go);
//   - a prefixCase is a prefix of the audit log's filter (audit.go).
//
// A check uses a probe, which builds requests for two teams, with ids that it reads, and calls the
// services. It needs no access to their data, so the implementation may be in any language. A check
// ends at its first breach, as a test ends with FailNow: the functions must and require panic, and
// the runner recovers.
//
// A check passes only with evidence: if the service or the fixtures lack the data that would show a
// breach, it is not proved, and its reason names that data ([lacks]). What the fixtures state and
// the service lacks is a breach. A check is skipped only if it was not asked for, or is about
// something optional. Sentences that no client can check are rows of [notChecked].
package conformance
