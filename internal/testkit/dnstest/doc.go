// Package dnstest runs DNS servers for tests.
package dnstest
