package console_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"opsgate/cmd/internal/admin/console"
)

const every = 10 * time.Second

// sampled runs a console in the test's bubble, which has taken its first sample.
func sampled(t *testing.T, metrics *counters) *console.Console {
	t.Helper()
	c := console.New(console.Options{Metrics: metrics, Source: well()})
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

// pass lets so many samples be taken.
func pass(n int) {
	time.Sleep(time.Duration(n) * every)
	synctest.Wait()
}

func TestThePageHasWhatWasCountedBetweenSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		metrics.serve("v1Me", "200", 7, 0) // before anybody counted along
		c := sampled(t, metrics)
		if _, traffic := look(t, c); traffic.Points != 0 || len(traffic.Routes) != 0 {
			t.Errorf("before there is a point: %+v", traffic)
		}
		metrics.serve("v1Me", "200", 2, 0)
		metrics.serve("v1Me", "304", 1, 0)
		metrics.serve("v1Me", "429", 4, 0)
		pass(1)
		metrics.serve("v1Me", "403", 3, 0)
		metrics.serve("v1ListServers", "200", 20, 0) // which is new
		metrics.serve("v1ListServers", "503", 1, 0)
		pass(2)
		_, traffic := look(t, c)
		if traffic.Points != 3 || traffic.Every != 10 || traffic.Most != 90 || !traffic.End.Equal(time.Now()) {
			t.Errorf("got %+v", traffic)
		}
		for i := range traffic.Routes {
			traffic.Routes[i].P50, traffic.Routes[i].P99 = nil, nil
		}
		want := []console.Route{
			{Name: "v1ListServers", Answered: []uint32{0, 20, 0}, Failed: []uint32{0, 1, 0}},
			{Name: "v1Me", Answered: []uint32{3, 0, 0}, Rejected: []uint32{0, 3, 0}, Limited: []uint32{4, 0, 0}},
		}
		if diff := cmp.Diff(want, traffic.Routes); diff != "" {
			t.Error(diff)
		}
		if got := traffic.Total; !slices.Equal(got.Answered, []uint32{3, 20, 0}) || !slices.Equal(got.Limited, []uint32{4, 0, 0}) {
			t.Errorf("in all: %+v", got)
		}
	})
}

func TestTheHistoryLastsAQuarterOfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		c := sampled(t, metrics)
		metrics.serve("v1Me", "200", 5, 0)
		pass(90)
		_, traffic := look(t, c)
		if got := traffic.Total.Answered; traffic.Points != 90 || len(got) != 90 || got[0] != 5 || slices.Max(got[1:]) != 0 {
			t.Errorf("got %+v", traffic)
		}
		metrics.serve("v1Me", "200", 6, 0)
		pass(1)
		_, traffic = look(t, c)
		if got := traffic.Total.Answered; traffic.Points != 90 || len(got) != 90 || got[89] != 6 || slices.Max(got[:89]) != 0 {
			t.Errorf("got %+v", traffic)
		}
		pass(200)
		if _, traffic = look(t, c); len(traffic.Routes) != 0 || traffic.Total.Answered != nil || traffic.Points != 90 {
			t.Errorf("got %+v", traffic)
		}
	})
}

func TestLatenciesAreOfTheLastFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		c := sampled(t, metrics)
		metrics.serve("slow", "200", 100, 50*time.Millisecond) // all in the bucket from 10 to 100 ms
		metrics.serve("mixed", "200", 98, time.Millisecond)
		metrics.serve("mixed", "200", 2, time.Minute)
		pass(1)
		_, traffic := look(t, c)
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
			t.Errorf("in all: %+v", p)
		}
		pass(30)
		_, traffic = look(t, c)
		if got := traffic.Routes[0]; got.P50 != nil || got.P99 != nil || traffic.Total.P99 != nil {
			t.Errorf("after five minutes: %+v", got)
		}
	})
}

func TestRoutesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		c := sampled(t, metrics)
		for i := range 70 {
			metrics.serve(fmt.Sprint("route-", i), "200", 1, 0)
		}
		pass(1)
		if _, traffic := look(t, c); len(traffic.Routes) != 64 || traffic.LeftOut != 6 {
			t.Errorf("%d routes, %d left out", len(traffic.Routes), traffic.LeftOut)
		}
	})
}
