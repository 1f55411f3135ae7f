package console_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"opsgate/cmd/internal/gate/admin/console"
)

const every = 10 * time.Second

// startSampling runs a console in the test's bubble and waits for its first sample.
func startSampling(t *testing.T, metrics *counters) *console.Console {
	t.Helper()
	c := newConsole(metrics, healthy())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return c
}

// waitSamples waits for n samples.
func waitSamples(n int) {
	time.Sleep(time.Duration(n) * every)
	synctest.Wait()
}

func TestPointsAreDifferencesOfSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		metrics.count("v1Me", "200", 7, 0) // before the first sample
		c := startSampling(t, metrics)
		if traffic := stateOf(t, c).Traffic; traffic.Points != 0 || len(traffic.Routes) != 0 {
			t.Errorf("before there is a point: %+v", traffic)
		}
		metrics.count("v1Me", "200", 2, 0)
		metrics.count("v1Me", "304", 1, 0)
		metrics.count("v1Me", "429", 4, 0)
		waitSamples(1)
		metrics.count("v1Me", "403", 3, 0)
		metrics.count("v1ListServers", "200", 20, 0) // a new route
		metrics.count("v1ListServers", "503", 1, 0)
		waitSamples(2)
		traffic := stateOf(t, c).Traffic
		if traffic.Points != 3 || traffic.Every != 10 || traffic.MaxPoints != 90 || !traffic.End.Equal(time.Now()) {
			t.Errorf("got %+v", traffic)
		}
		for i := range traffic.Routes {
			traffic.Routes[i].P50, traffic.Routes[i].P99 = nil, nil
		}
		want := []console.RouteTraffic{
			{Name: "v1ListServers", Answered: []uint32{0, 20, 0}, Failed: []uint32{0, 1, 0}},
			{Name: "v1Me", Answered: []uint32{3, 0, 0}, Rejected: []uint32{0, 3, 0}, Limited: []uint32{4, 0, 0}},
		}
		if diff := cmp.Diff(want, traffic.Routes); diff != "" {
			t.Error(diff)
		}
		if got := traffic.Total; !slices.Equal(got.Answered, []uint32{3, 20, 0}) || !slices.Equal(got.Limited, []uint32{4, 0, 0}) {
			t.Errorf("total: %+v", got)
		}
	})
}

func TestHistoryHas15Minutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		c := startSampling(t, metrics)
		metrics.count("v1Me", "200", 5, 0)
		waitSamples(90)
		traffic := stateOf(t, c).Traffic
		if got := traffic.Total.Answered; traffic.Points != 90 || len(got) != 90 || got[0] != 5 || slices.Max(got[1:]) != 0 {
			t.Errorf("got %+v", traffic)
		}
		metrics.count("v1Me", "200", 6, 0)
		waitSamples(1)
		traffic = stateOf(t, c).Traffic
		if got := traffic.Total.Answered; traffic.Points != 90 || len(got) != 90 || got[89] != 6 || slices.Max(got[:89]) != 0 {
			t.Errorf("got %+v", traffic)
		}
		waitSamples(200)
		if traffic = stateOf(t, c).Traffic; len(traffic.Routes) != 0 || traffic.Total.Answered != nil || traffic.Points != 90 {
			t.Errorf("got %+v", traffic)
		}
	})
}

func TestLatenciesCoverFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		c := startSampling(t, metrics)
		metrics.count("slow", "200", 100, 50*time.Millisecond) // all in the bucket from 10 to 100 ms
		metrics.count("mixed", "200", 98, time.Millisecond)
		metrics.count("mixed", "200", 2, time.Minute)
		waitSamples(1)
		traffic := stateOf(t, c).Traffic
		for _, r := range traffic.Routes {
			want := map[string][2]console.Latency{
				"slow":  {{Seconds: .055}, {Seconds: .0991}},
				"mixed": {{Seconds: .01 * 50 / 98}, {Seconds: 1, Over: true}},
			}[r.Name]
			for i, got := range []*console.Latency{r.P50, r.P99} {
				if got == nil || got.Over != want[i].Over || got.Seconds < want[i].Seconds-1e-9 || got.Seconds > want[i].Seconds+1e-9 {
					t.Errorf("%s: got %+v, want %+v", r.Name, got, want[i])
				}
			}
		}
		if p := traffic.Total.P50; len(traffic.Routes) != 2 || p == nil || p.Seconds < .01 || p.Seconds > .02 {
			t.Errorf("total: %+v", p)
		}
		waitSamples(30)
		traffic = stateOf(t, c).Traffic
		if got := traffic.Routes[0]; got.P50 != nil || got.P99 != nil || traffic.Total.P99 != nil {
			t.Errorf("after five minutes: %+v", got)
		}
	})
}

func TestRoutesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		c := startSampling(t, metrics)
		for i := range 70 {
			metrics.count(fmt.Sprint("route-", i), "200", 1, 0)
		}
		waitSamples(1)
		if traffic := stateOf(t, c).Traffic; len(traffic.Routes) != 64 || traffic.Omitted != 6 {
			t.Errorf("%d routes, %d omitted", len(traffic.Routes), traffic.Omitted)
		}
	})
}
