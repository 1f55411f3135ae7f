package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"text/tabwriter"
	"time"

	"opsgate/tools/edgebench/load"
)

// The edge has one processor, and the load and the backend have the other, so that neither affects the measurement of the other.
const (
	edgeProcessor  = "0"
	otherProcessor = "1"
)

const (
	overloadDuration    = 4 * time.Second
	overloadConnections = 1500
)

// overload runs this program again, on the processor that the edge does not use.
func overload(ctx context.Context) error {
	if runtime.NumCPU() < 2 {
		return errors.New("overload needs two processors, one of them for the edge alone")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, "taskset", "--cpu-list", otherProcessor, self, "overload-on-this-processor")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd.Run()
}

// measureOverload sends an edge more requests than it can answer, for several values of max_in_flight, and prints rates and latencies of
// the answered and of the refused ones.
func measureOverload(ctx context.Context, w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "max_in_flight\tasked/s\tanswered/s\tp50\tp99\trefused/s\tp50\tp99\t")
	for _, maxInFlight := range []int{1024, 256, 64, 32} {
		if err := overloadWith(ctx, t, maxInFlight); err != nil {
			return err
		}
	}
	return t.Flush()
}

func overloadWith(ctx context.Context, w io.Writer, maxInFlight int) error {
	o := options{
		store:    storeMemory,
		settings: fmt.Sprintf("http: {max_in_flight: %d}\n", maxInFlight),
		launcher: []string{"taskset", "--cpu-list", edgeProcessor},
	}
	s, err := newTestbed(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	run := load.Options{
		Address: s.edge.address, Request: s.request("GET", s.edge, "/v1/servers", ""),
		Connections: overloadConnections, Duration: overloadDuration,
	}
	for _, rate := range []int{4000, 8000, 12000, 16000} {
		got, err := load.Offer(ctx, run, rate)
		if err != nil {
			return err
		}
		admitted, rejected := got[200], got[503]
		_, _ = fmt.Fprintf(w, "%d\t%d\t%.0f\t%s\t%s\t%.0f\t%s\t%s\t\n", maxInFlight, rate,
			admitted.Rate(), millis(admitted.Percentile(0.50)), millis(admitted.Percentile(0.99)),
			rejected.Rate(), millis(rejected.Percentile(0.50)), millis(rejected.Percentile(0.99)))
	}
	return nil
}
