package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"opsgate/tools/edgebench/load"
)

// sample is one measurement of one edge.
type sample struct {
	cpu      time.Duration // for each request
	rate     float64       // requests per second
	p50, p99 time.Duration
	resident int64 // bytes, at the end
}

// round is one measurement of each edge, in turn.
type round struct{ bare, edge, floor sample }

// outcome has the median of each figure over all rounds of a scenario. Each ratio is the median of the ratios of the rounds, because a
// short slowdown of the machine affects all measurements of one round, but not all rounds.
type outcome struct {
	scenario

	bareMedian, edgeMedian, floorMedian sample
	cpuRatio, p99Ratio, floorRatio      float64 // CPU and p99 of the edge and CPU of the floor, divided by those of the bare gateway
}

// holdTime is longer than a comparison takes.
const holdTime = time.Hour

var errBarMissed = errors.New("the edge misses a bar")

// compare runs the whole comparison and prints it.
func compare(ctx context.Context, o options) error {
	s, err := newTestbed(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.startBaselines(ctx); err != nil {
		return err
	}
	scenarios, err := s.scenarios(ctx, o.store)
	if err != nil {
		return err
	}
	release, err := load.Hold(ctx, load.Options{
		Address: s.edge.address, Request: scenarios[0].edge, Connections: o.idle, Duration: holdTime,
	})
	if err != nil {
		return err
	}
	defer release()
	outcomes := make([]outcome, 0, len(scenarios))
	for _, sc := range scenarios {
		out, err := s.rounds(ctx, o, sc)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		outcomes = append(outcomes, out)
	}
	missed := report(os.Stdout, o, outcomes)
	if o.enforce && missed {
		return errBarMissed
	}
	return nil
}

// rounds measures one scenario.
func (s *testbed) rounds(ctx context.Context, o options, sc scenario) (outcome, error) {
	rounds := make([]round, o.rounds)
	for i := range rounds {
		var err error
		if rounds[i].bare, err = measure(ctx, o, s.bare, sc.bare); err != nil {
			return outcome{}, err
		}
		if rounds[i].edge, err = measure(ctx, o, s.edge, sc.edge); err != nil {
			return outcome{}, err
		}
		if rounds[i].floor, err = measure(ctx, o, s.floor, sc.edge); err != nil {
			return outcome{}, err
		}
	}
	return summarize(sc, rounds), nil
}

// measure loads one edge, after a short warm-up.
func measure(ctx context.Context, o options, t target, request []byte) (sample, error) {
	run := load.Options{Address: t.address, Request: request, Connections: o.connections, Duration: o.duration / 8}
	if _, err := load.Run(ctx, run); err != nil {
		return sample{}, fmt.Errorf("warm up %s: %w", t.name, err)
	}
	before, err := t.cpu()
	if err != nil {
		return sample{}, err
	}
	run.Duration = o.duration
	result, err := load.Run(ctx, run)
	if err != nil {
		return sample{}, fmt.Errorf("measure %s: %w", t.name, err)
	}
	after, err := t.cpu()
	if err != nil {
		return sample{}, err
	}
	resident, err := t.resident()
	if err != nil {
		return sample{}, err
	}
	return sample{
		cpu:      (after - before) / time.Duration(max(result.Requests(), 1)),
		rate:     result.Rate(),
		p50:      result.Percentile(0.50),
		p99:      result.Percentile(0.99),
		resident: resident,
	}, nil
}

// summarize returns the medians of the rounds.
func summarize(sc scenario, rounds []round) outcome {
	return outcome{
		scenario:    sc,
		bareMedian:  medians(rounds, func(r round) sample { return r.bare }),
		edgeMedian:  medians(rounds, func(r round) sample { return r.edge }),
		floorMedian: medians(rounds, func(r round) sample { return r.floor }),
		cpuRatio:    median(rounds, func(r round) float64 { return float64(r.edge.cpu) / float64(r.bare.cpu) }),
		p99Ratio:    median(rounds, func(r round) float64 { return float64(r.edge.p99) / float64(r.bare.p99) }),
		floorRatio:  median(rounds, func(r round) float64 { return float64(r.floor.cpu) / float64(r.bare.cpu) }),
	}
}

// medians returns the median of each figure of one edge.
func medians(rounds []round, of func(round) sample) sample {
	return sample{
		cpu:      median(rounds, func(r round) time.Duration { return of(r).cpu }),
		rate:     median(rounds, func(r round) float64 { return of(r).rate }),
		p50:      median(rounds, func(r round) time.Duration { return of(r).p50 }),
		p99:      median(rounds, func(r round) time.Duration { return of(r).p99 }),
		resident: median(rounds, func(r round) int64 { return of(r).resident }),
	}
}

// median returns the median of one figure: for an even number of rounds, the lower of the two in the middle.
func median[T cmp.Ordered](rounds []round, figure func(round) T) T {
	figures := make([]T, len(rounds))
	for i, r := range rounds {
		figures[i] = figure(r)
	}
	slices.Sort(figures)
	return figures[(len(figures)-1)/2]
}
