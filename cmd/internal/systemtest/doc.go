// Package systemtest tests the whole system over HTTP: it starts the program opsdev, or opsbackend and opsgate, as users do, and
// validates every response by the OpenAPI document. Rules that are easier to reach from inside are tested in their own packages.
package systemtest
