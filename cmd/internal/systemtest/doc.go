// Package systemtest starts the whole system as its users do, as the program opsdev in a process of its own, and speaks HTTP
// to it. What it finds out is the behaviour of the product; the rules that are easier to reach from inside are tested where
// they live. Every response is held against the API's description. The package has tests alone.
package systemtest
