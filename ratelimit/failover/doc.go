// Package failover is the store of budgets of a gateway that shares them with others. It asks the store that they share, and
// decides what happens while that is away.
//
// It promises that a shared store that is dead or hangs costs a few requests its time-out and all others nothing; that nobody is
// answered an error for it, unless that is what was asked for; that what gateways admit meanwhile is together about what the
// limits say; and that when the shared store is back, with all that it knew or with nothing, it is told of each token what it does
// not know, once, before it decides on it again.
//
// How the shared store works, and how it is told, is left to [Shared].
package failover
