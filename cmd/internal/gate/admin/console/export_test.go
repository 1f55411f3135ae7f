package console

// SlowLatency is the latency from which a service is slow, in seconds.
const SlowLatency = slowLatency

// MetricNames returns the metrics that the page shows.
func MetricNames() []string {
	return []string{
		metricRequests, metricDuration, metricInFlight, metricCalls, metricStart, metricMemory, metricGoroutines,
	}
}

// Advices returns impact, deadline and action by kind of finding.
func Advices() map[string][3]string {
	m := make(map[string][3]string)
	for kind, a := range advices {
		m[kind] = [3]string{a.impact, a.deadline, a.action}
	}
	return m
}

// ServicePaths returns the beginnings of the paths that need a service, by its name.
func ServicePaths() map[string]string { return servicePaths }
