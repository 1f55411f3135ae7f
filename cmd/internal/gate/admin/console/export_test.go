package console

// MaxStreams is the maximum number of streams.
const MaxStreams = maxStreams

// MetricNames returns the metrics that the page shows.
func MetricNames() []string {
	return []string{
		metricRequests, metricDuration, metricInFlight, metricCalls, metricStart, metricMemory, metricGoroutines,
	}
}
