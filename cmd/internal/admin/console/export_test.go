package console

// MaxStreams is how many may follow the events at once.
const MaxStreams = maxStreams

// MetricNames are the metrics that the page is made of.
func MetricNames() []string {
	return []string{
		metricRequests, metricDuration, metricInFlight, metricCalls, metricStart, metricMemory, metricGoroutines,
	}
}
