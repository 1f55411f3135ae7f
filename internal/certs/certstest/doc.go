// Package certstest issues certificates for tests.
package certstest
