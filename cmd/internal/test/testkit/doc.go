// Package testkit is what the tests below cmd/internal share: checks, waiting, and programs that run as processes.
package testkit
