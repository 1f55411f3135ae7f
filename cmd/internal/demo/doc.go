// Package demo lays the data that the system is shown and tested with.
//
// Three teams: Harbour, which has everything there is; Lighthouse, a smaller one, whose data Harbour must never see; and
// Breakwater, whose plan is without the public API. The data is made by a seeded generator: ids, names, numbers and tokens are
// the same at every start, and only times differ, which are relative to now. So whoever reads this repository knows the
// tokens: a backend with demo data must not face strangers.
package demo
