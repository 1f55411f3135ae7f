// Package monitortest tests dashboards, alerts and runbooks: a gateway exposes every metric that they query, and their links resolve. It
// is a separate module, because the parser of Prometheus has many dependencies.
//
// promtool tests when alerts fire, with the cases in deploy/prometheus/tests (make check-rules).
package monitortest
