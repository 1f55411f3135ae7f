package wiring

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/authn"
	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/heavyhitters"
)

// deny records two denials for each of a number of tokens.
func deny(d *deniedTokens, name string, tokens int) {
	for i := range tokens {
		for range 2 {
			d.add(fmt.Sprint(name, i))
		}
	}
}

func TestEstimateOfDistinctDeniedTokens(t *testing.T) {
	for _, tokens := range []int{0, 1, 10, 1_000, 50_000} {
		registry := prometheus.NewRegistry()
		d, err := newDeniedTokens(registry)
		testkit.Must(t, err)
		deny(d, "", tokens)
		admitted := &decisions{busiest: heavyhitters.New(), denied: d}
		admitted.Decided(&authn.Principal{TokenID: "admitted"}, &ratelimit.Decision{Allowed: true})
		families, err := registry.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("got %v, %v", families, err)
		}
		got := families[0].GetMetric()[0].GetGauge().GetValue()
		if off := math.Abs(got - float64(tokens)); off > 1+.1*float64(tokens) {
			t.Errorf("%d tokens: estimated %v", tokens, got)
		}
	}
	d, err := newDeniedTokens(prometheus.NewRegistry())
	testkit.Must(t, err)
	if n := testing.AllocsPerRun(100, func() { d.add("t") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOldDeniedTokensAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := newDeniedTokens(prometheus.NewRegistry())
		testkit.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		time.Sleep(deniedWindow / 2)
		deny(d, "first", 10)
		time.Sleep(deniedWindow) // the second window has started
		deny(d, "second", 10)
		deny(d, "first", 10)
		if n := d.estimate(); n < 18 || n > 20 { // two may share a bit
			t.Errorf("in the second minute: %v", n)
		}
		time.Sleep(deniedWindow)
		deny(d, "third", 5)
		if n := d.estimate(); n < 23 || n > 25 {
			t.Errorf("in the third minute: %v", n)
		}
		time.Sleep(2 * deniedWindow)
		if n := d.estimate(); n != 0 {
			t.Errorf("two minutes later: %v", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
