// Package demo inserts data for demonstrations and tests.
//
// There are three teams: Harbour has resources of every kind; Lighthouse is smaller, and its data
// must not be visible to Harbour; Breakwater has a plan without the public API. A seeded generator
// creates the data: ids, names, numbers and tokens are the same at every start, and times are
// relative to now. The tokens can be computed from this repository, so a backend with demo data
// must not be reachable by others.
package demo
