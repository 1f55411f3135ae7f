// Package conformance holds anybody's internal services to the contract in proto: it calls them as the edge does, and says method
// by method which sentences of the contract they keep.
//
// A check is a row of a table: a name that stays, a sentence of the contract, and a function that looks. It goes by what two
// teams' fixtures name and by what the services answer, and by nothing else; so it needs no access to their data, and holds of an
// implementation in any language. A check that would show nothing, since the data for it is not there, is skipped and says why.
//
// What cannot be seen from outside is not checked: that a write and its notifications are one transaction, that keys outlive a
// restart, that they are forgotten after a day, that a stream of revocations misses none.
package conformance
