// Package metricspage checks and writes the tables of the page of metrics. A table has every metric
// that a program has registered, whether or not it has a series.
package metricspage
