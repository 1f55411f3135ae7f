// Package monitortest holds the dashboards, the alerts and the runbooks to the program: what they ask for is what a gateway exposes, and
// what they link to is there. The package has tests alone, in a module by itself, for the parser of Prometheus brings much along that
// the product has no use for.
//
// That an alert fires when it should is shown by promtool, which reads deploy/prometheus/tests (make check-rules).
package monitortest
