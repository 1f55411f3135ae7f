// Package system tests the whole system over HTTP: it starts the program opsdev as users do, and
// validates every response against the OpenAPI document. Each package tests its own rules.
package system
