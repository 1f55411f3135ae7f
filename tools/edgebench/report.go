package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Bounds of the edge in addition to the CPU time of each scenario.
const (
	residentBar  = 64 << 20
	residentGoal = 48 << 20
	p99Goal      = 0.7
	p99Bar       = 0.9
)

// report prints the comparison and reports whether a bar is missed. A latency above its bar does not count, because the load, the backend
// and the edge share one machine.
func report(w io.Writer, o options, outcomes []outcome) (missed bool) {
	_, _ = fmt.Fprintf(w, "CPU time of a request, edge and bare grpc-gateway: limits in %s, %d connections and "+
		"%d idle, medians of %d rounds of %v\n\n", o.store, o.connections, o.idle, o.rounds, o.duration)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\t\n", args...) }

	row("request\tratio\tbar\tgoal\t\tfloor\tbare µs\tedge µs\tfloor µs\t" +
		"bare req/s\tedge req/s\tbare p50\tedge p50\tbare p99\tedge p99\tp99 ratio")
	var resident int64
	for _, out := range outcomes {
		bare, edge := out.bareMedian, out.edgeMedian
		missed = missed || out.cpuRatio > out.bar
		resident = max(resident, edge.resident)
		row("%s\t%.3f\t%.2f\t%.2f\t%s\t%.3f\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%.2f",
			out.name, out.cpuRatio, out.bar, out.goal, verdict(out.cpuRatio, out.bar, out.goal), out.floorRatio,
			micros(bare.cpu), micros(edge.cpu), micros(out.floorMedian.cpu), bare.rate, edge.rate,
			millis(bare.p50), millis(edge.p50), millis(bare.p99), millis(edge.p99),
			out.p99Ratio)
	}
	_ = t.Flush()

	_, _ = fmt.Fprintln(w, "\nfloor: Gin, one gRPC call and a response that is encoded in advance")
	missed = missed || resident > residentBar
	_, _ = fmt.Fprintf(w, "\nresident memory of the edge: %.1f MiB (bar %d, goal %d: %s); p99 ratio: bar %.1f, goal %.1f, not enforced\n",
		float64(resident)/(1<<20), residentBar>>20, residentGoal>>20,
		verdict(float64(resident), residentBar, residentGoal), p99Bar, p99Goal)
	return missed
}

// verdict compares a figure with its bounds. Lower figures are better.
func verdict(figure, bar, goal float64) string {
	switch {
	case figure <= goal:
		return "meets the goal"
	case figure <= bar:
		return "within the bar"
	default:
		return "MISSES THE BAR"
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
