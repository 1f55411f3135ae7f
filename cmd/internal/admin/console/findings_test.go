package console_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/admin/console"
)

func TestWhatIsWrongIsSaidInWords(t *testing.T) {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	away := ago(90 * time.Second)
	for _, test := range []struct {
		name  string
		spoil func(*source)
		want  []console.Finding
	}{
		{"nothing", func(*source) {}, []console.Finding{}},
		{"a breaker is open", func(s *source) {
			s.dependencies[0].Breaker = &console.Breaker{
				State: "open", Since: ago(40 * time.Second), ProbesAt: noon.Add(2 * time.Second), Cause: "Unavailable: gone",
			}
		}, []console.Finding{{Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker open for 40 s, next probe in 2 s", Detail: "Unavailable: gone"}}},
		{"nobody has called since", func(s *source) {
			s.dependencies[0].Breaker = &console.Breaker{State: "open", Since: ago(time.Hour), ProbesAt: ago(time.Minute)}
		}, []console.Finding{{Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker open for 1 h, the next call is a probe"}}},
		{"a breaker is half-open", func(s *source) {
			s.dependencies[0].Breaker = &console.Breaker{State: "half-open", Since: ago(time.Second)}
		}, []console.Finding{{Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker half-open for 1 s, a few calls are let through"}}},
		{"a service is away", func(s *source) {
			s.dependencies[0].State, s.dependencies[0].OK, s.dependencies[0].Reason = "unavailable", false, "connection refused"
		}, []console.Finding{{Key: "connection:fleet", Verdict: "broken", Text: "fleet: unavailable for 0 s", Detail: "connection refused"}}},
		{"a service is being connected to", func(s *source) {
			s.dependencies[0].State, s.dependencies[0].OK = "connecting", false
		}, []console.Finding{{Key: "connection:fleet", Verdict: "impaired", Text: "fleet: connecting for 0 s"}}},
		{"revocations are not heard of", func(s *source) {
			s.dependencies[0] = console.Dependency{Name: "revocations", State: "unavailable", Reason: "the stream is away"}
		}, []console.Finding{{Key: "connection:revocations", Verdict: "impaired", Text: "revocations: unavailable for 0 s", Detail: "the stream is away"}}},
		{"Redis is away", func(s *source) {
			s.dependencies = append(s.dependencies, console.Dependency{Name: "redis", State: "unavailable, limits are local"})
			s.store = admin.Store{Mode: "local", Since: &away, Breaker: &admin.Breaker{State: "open", Cause: "connection refused"}}
		}, []console.Finding{{
			Key: "limiter:local", Verdict: "impaired", Text: "redis: away; limits are counted by each gateway for itself for 1 min 30 s", Detail: "connection refused",
		}}},
		{"Redis is away, and nobody is admitted", func(s *source) {
			s.store = admin.Store{Mode: "deny", Since: &away}
		}, []console.Finding{{
			Key: "limiter:deny", Verdict: "broken", Text: "redis: away; limits are not counted, every request is refused for 1 min 30 s",
		}}},
		{"a reload was refused", func(s *source) {
			s.config.LastReload = &admin.Reload{At: ago(26 * time.Hour), Outcome: "refused", Problems: []string{"a:1: x", "a:2: y"}}
		}, []console.Finding{{
			Key: "reload", Verdict: "impaired", Text: "The configuration on disk was refused 1 d 2 h ago (2 problems)", Detail: "a:1: x\na:2: y",
		}}},
		{"a reload was good", func(s *source) { s.config.LastReload = &admin.Reload{At: noon, Outcome: "applied"} }, []console.Finding{}},
		{"what fails comes first", func(s *source) {
			s.config.LastReload = &admin.Reload{At: ago(11 * time.Minute), Outcome: "refused", Problems: []string{"x"}}
			s.dependencies[0].Breaker = &console.Breaker{State: "open"}
		}, []console.Finding{
			{Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker open for 0 s"},
			{Key: "reload", Verdict: "impaired", Text: "The configuration on disk was refused 11 min ago (1 problem)", Detail: "x"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := well()
			test.spoil(s)
			got, _ := look(t, console.New(console.Options{Metrics: newCounters(), Source: s, Clock: func() time.Time { return noon }}))
			if diff := cmp.Diff(test.want, got.Findings); diff != "" {
				t.Error(diff)
			}
			want := "well"
			if len(test.want) > 0 {
				want = test.want[0].Verdict
			}
			if got.Verdict != want {
				t.Errorf("the verdict is %s", got.Verdict)
			}
		})
	}
}

func TestAnOutageLastsFromItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := well()
		c := console.New(console.Options{Metrics: newCounters(), Source: s})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		said := func(want string) {
			t.Helper()
			got, _ := look(t, c)
			if text := strings.Join(texts(got.Findings), "; "); text != want {
				t.Errorf("got %q, want %q", text, want)
			}
		}
		for _, state := range []string{"open", "half-open", "open"} { // nobody looks meanwhile
			s.become(func(d *console.Dependency) { d.Breaker = &console.Breaker{State: state, Since: time.Now()} })
			pass(20 * time.Second)
		}
		s.become(func(d *console.Dependency) { d.State, d.OK = "unavailable", false })
		said("fleet: breaker open for 1 min")
		s.become(func(d *console.Dependency) { d.Breaker = &console.Breaker{State: "closed"} })
		pass(7 * time.Second)
		said("fleet: unavailable for 7 s")
		s.become(func(d *console.Dependency) { d.State = "connecting" })
		pass(time.Second)
		said("fleet: connecting for 8 s")
		s.become(func(d *console.Dependency) { d.OK = true })
		pass(time.Second)
		said("")
		s.become(func(d *console.Dependency) { d.OK = false })
		pass(time.Second)
		said("fleet: connecting for 0 s")
	})
}

func texts(findings []console.Finding) []string {
	var list []string
	for _, f := range findings {
		list = append(list, f.Text)
	}
	return list
}

func TestFailedRequestsAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		c := sampled(t, metrics)
		check := func(verdict string, findings ...console.Finding) {
			t.Helper()
			got, _ := look(t, c)
			if diff := cmp.Diff(findings, got.Findings); got.Verdict != verdict || len(findings)+len(got.Findings) > 0 && diff != "" {
				t.Errorf("%s, %s", got.Verdict, diff)
			}
		}
		metrics.serve("calm", "200", 990, 0)
		metrics.serve("a", "500", 1, 0)
		pass(1)
		check("impaired", console.Finding{
			Key: "failures:impaired", Verdict: "impaired", Text: "1 of 991 requests in the last minute failed (5xx)", Detail: "a: 1",
		})
		for route, n := range map[string]int{"b": 30, "c": 20, "d": 10, "e": 2} {
			metrics.serve(route, "503", n, 0)
		}
		pass(1)
		check("broken", console.Finding{
			Key: "failures:broken", Verdict: "broken", Text: "63 of 1053 requests in the last minute failed (5xx)", Detail: "b: 30, c: 20, d: 10, 2 more routes",
		})
		pass(2)
		check("impaired", console.Finding{
			Key: "failures:impaired", Verdict: "impaired", Text: "63 of 1053 requests in the last minute failed (5xx), none of the last 20 s",
			Detail: "b: 30, c: 20, d: 10, 2 more routes",
		})
		pass(4)
		check("well")
	})
}

func TestRevocationsThatAreNotHeardOf(t *testing.T) {
	metrics := newCounters()
	connected := prometheus.NewGauge(prometheus.GaugeOpts{Name: "opsgate_authn_revocation_stream_connected"})
	metrics.MustRegister(connected)
	c := console.New(console.Options{Metrics: metrics, Source: well(), StateEvery: time.Nanosecond})
	if got, _ := look(t, c); !slices.Equal(texts(got.Findings), []string{"Revocations of tokens are not heard of: they are noticed late"}) {
		t.Errorf("got %v", got.Findings)
	}
	connected.Set(1)
	if got, _ := look(t, c); got.Verdict != "well" {
		t.Errorf("got %v", got.Findings)
	}
}
