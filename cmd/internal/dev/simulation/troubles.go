package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"opsgate/cmd/internal/backend/demo"
)

// checksUntilDown is the number of failed checks after which the backend sets a monitor to down, with one more for a check in progress.
const checksUntilDown = 3 + 1

// mostTroubled is the number of targets of a team that are in trouble at a time, so that most of its monitors are up.
const mostTroubled = 3

// addTroubles schedules the outages and the degradations of the team's targets: each target has about one of both in an hour.
func (t *team) addTroubles(start time.Time) {
	var fragile []*target
	for _, x := range t.targets {
		if !x.steady {
			fragile = append(fragile, x)
		}
	}
	if len(fragile) == 0 {
		return
	}
	share := time.Duration(len(fragile))
	outages := t.random("outages")
	pause := func() time.Duration { return demo.Between(outages, 40*time.Minute, 80*time.Minute) / share }
	first := pause()
	if quick := quickest(fragile); !quick.inTrouble(start) && quick.interval <= time.Minute {
		first += pause()
		// The third check that fails is in the fourth minute after the start.
		t.schedule(start.Add(time.Minute), func(_ context.Context, at time.Time) (time.Time, error) {
			quick.fail(outages, at)
			return time.Time{}, nil
		})
	}
	t.schedule(start.Add(first), func(_ context.Context, at time.Time) (time.Time, error) {
		if x := pickTarget(outages, fragile, at); x != nil {
			x.fail(outages, at)
		}
		return at.Add(pause()), nil
	})
	degradations := t.random("degradations")
	t.schedule(start.Add(2*time.Minute), func(_ context.Context, at time.Time) (time.Time, error) {
		if x := pickTarget(degradations, fragile, at); x != nil {
			x.degrade(degradations, at)
		}
		return at.Add(demo.Between(degradations, 30*time.Minute, 70*time.Minute) / share), nil
	})
}

// quickest returns the target with the shortest interval.
func quickest(targets []*target) *target {
	found := targets[0]
	for _, x := range targets {
		if x.interval < found.interval {
			found = x
		}
	}
	return found
}

// pickTarget returns a target that is not in trouble, mostly one with a short interval; nil if there is none, or too many are in trouble.
func pickTarget(r *rand.Rand, targets []*target, at time.Time) *target {
	total, troubled := 0.0, 0
	for _, x := range targets {
		total += x.weight(at)
		if x.inTrouble(at) {
			troubled++
		}
	}
	if troubled >= mostTroubled {
		return nil
	}
	choice := r.Float64() * total
	for _, x := range targets {
		if choice -= x.weight(at); choice < 0 {
			return x
		}
	}
	return nil
}

// weight is proportional to the probability with which the target gets into trouble.
func (x *target) weight(at time.Time) float64 {
	if x.inTrouble(at) {
		return 0
	}
	return 1 / x.interval.Seconds()
}

// fail begins an outage that is long enough to set the monitor to down. Every sixth is a flapping one.
func (x *target) fail(r *rand.Rand, at time.Time) {
	x.trouble = trouble{result: down, share: 1, until: at.Add(checksUntilDown*x.interval + demo.Between(r, time.Minute, 5*time.Minute))}
	if r.IntN(6) == 0 {
		x.trouble.share = 0.75
		x.trouble.until = at.Add(4 * checksUntilDown * x.interval)
	}
}

// degrade begins a time of slow responses.
func (x *target) degrade(r *rand.Rand, at time.Time) {
	x.trouble = trouble{result: degraded, share: 1, until: at.Add(max(2*x.interval, demo.Between(r, 5*time.Minute, 15*time.Minute)))}
}
