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
	cpu      time.Duration // a request
	rate     float64       // requests a second
	p50, p99 time.Duration
	resident int64 // bytes, at the end
}

// outcome is what all rounds of one scenario come to.
type outcome struct {
	scenario

	bareMedian, edgeMedian sample
}

// ratio returns the edge's CPU a request as a share of the bare gateway's.
func (o outcome) ratio() float64 { return float64(o.edgeMedian.cpu) / float64(o.bareMedian.cpu) }

var errBarMissed = errors.New("the edge misses a bar")

// compare runs the whole comparison and prints it.
func compare(ctx context.Context, o options) error {
	s, err := newStage(ctx, o.backend)
	if err != nil {
		return err
	}
	defer s.close()
	scenarios, err := s.scenarios(ctx)
	if err != nil {
		return err
	}
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

// rounds measures one scenario at both edges in turn, so that a slow moment of the machine meets both.
func (s *stage) rounds(ctx context.Context, o options, sc scenario) (outcome, error) {
	var bare, edge []sample
	for range o.rounds {
		b, err := measure(ctx, o, s.bare, sc.bare)
		if err != nil {
			return outcome{}, err
		}
		e, err := measure(ctx, o, s.edge, sc.edge)
		if err != nil {
			return outcome{}, err
		}
		bare, edge = append(bare, b), append(edge, e)
	}
	return outcome{scenario: sc, bareMedian: median(bare), edgeMedian: median(edge)}, nil
}

// measure loads one edge: a short while to warm up, and then for the record.
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

// median returns the median of each figure by itself.
func median(samples []sample) sample {
	return sample{
		cpu:      middle(samples, func(s sample) time.Duration { return s.cpu }),
		rate:     middle(samples, func(s sample) float64 { return s.rate }),
		p50:      middle(samples, func(s sample) time.Duration { return s.p50 }),
		p99:      middle(samples, func(s sample) time.Duration { return s.p99 }),
		resident: middle(samples, func(s sample) int64 { return s.resident }),
	}
}

// middle returns the median of one figure; of an even number, the lower middle one.
func middle[T cmp.Ordered](samples []sample, figure func(sample) T) T {
	figures := make([]T, len(samples))
	for i, s := range samples {
		figures[i] = figure(s)
	}
	slices.Sort(figures)
	return figures[(len(figures)-1)/2]
}
