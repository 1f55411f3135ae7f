package logging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/logging"
	"opsgate/internal/testkit"
)

// limited is a Limiter whose reports are recorded.
type limited struct {
	*logging.Limiter

	registry *prometheus.Registry
	out      *recorder
}

// newLimited returns a Limiter on the clock of the bubble.
func newLimited(t *testing.T) *limited {
	t.Helper()
	l := &limited{registry: prometheus.NewRegistry(), out: new(recorder)}
	limiter, err := logging.NewLimiter(logging.LimiterOptions{
		Logger: slog.New(slog.NewJSONHandler(l.out, nil)), Clock: time.Now, Registerer: l.registry, Service: "opsgate",
	})
	testkit.Must(t, err)
	l.Limiter = limiter
	return l
}

// run runs the Limiter until the returned function is called.
func (l *limited) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// reports returns the lines that were logged, without their time.
func (l *limited) reports(t *testing.T) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(l.out.all()) {
		var decoded map[string]any
		if err := json.Unmarshal([]byte(line), &decoded); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		delete(decoded, "time")
		lines = append(lines, decoded)
	}
	return lines
}

// allowed returns how many of n lines are admitted.
func allowed(lines *logging.Lines, cause string, n int) (admitted int) {
	for range n {
		if lines.Allow(cause) {
			admitted++
		}
	}
	return admitted
}

func TestNoIntervalOfASecondHasMoreLinesThanTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 10
		lines := newLimited(t).Lines("kind", bound)
		var admitted []time.Time
		for range 5000 {
			if lines.Allow("") {
				admitted = append(admitted, time.Now())
			}
			time.Sleep(time.Millisecond)
		}
		for i := range admitted[bound:] {
			if within := admitted[i+bound].Sub(admitted[i]); within < time.Second {
				t.Fatalf("%d lines within %v", bound+1, within)
			}
		}
		if len(admitted) != 5*bound {
			t.Errorf("%d lines in 5 s, want %d", len(admitted), 5*bound)
		}
	})
}

func TestLinesWithinTheBoundAreNeitherSuppressedNorReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t)
		lines := l.Lines("kind", 10)
		stop := l.run(t)
		for range 5 {
			if got := allowed(lines, "cause", 10); got != 10 {
				t.Errorf("%d of 10 lines were admitted", got)
			}
			time.Sleep(time.Second)
		}
		stop()
		if got := l.reports(t); got != nil {
			t.Errorf("got %v", got)
		}
	})
}

func TestCausesOfAKindShareItsBoundUnlessEachHasItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t)
		shared, own := l.Lines("shared", 10), l.LinesPerCause("own", 10, time.Second)
		if first, second := allowed(shared, "a", 100), allowed(shared, "b", 100); first != 10 || second != 0 {
			t.Errorf("shared: %d and %d", first, second)
		}
		if first, second := allowed(own, "a", 100), allowed(own, "b", 100); first != 10 || second != 10 {
			t.Errorf("per cause: %d and %d", first, second)
		}
	})
}

func TestSuppressedLinesAreReportedOnceByKindAndCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t)
		requests, connections := l.Lines("unauthenticated", 10), l.Lines("connection", 5)
		defer l.run(t)()
		allowed(requests, "token:missing", 30)
		allowed(requests, "route", 7)
		allowed(connections, "", 8)
		time.Sleep(10 * time.Second)
		want := []map[string]any{
			{"level": "WARN", "msg": "log lines suppressed", "kind": "unauthenticated", "lines": 27.0, "causes": map[string]any{"token:missing": 20.0, "route": 7.0}},
			{"level": "WARN", "msg": "log lines suppressed", "kind": "connection", "lines": 3.0},
		}
		if diff := cmp.Diff(want, l.reports(t)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSuppressedLinesAreCountedByKindFromZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t)
		noisy := l.Lines("noisy", 1)
		l.LinesPerCause("quiet", 1, time.Second)
		allowed(noisy, "a", 2)
		allowed(noisy, "b", 2)
		families, err := l.registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "opsgate_log_lines_suppressed_total" {
			t.Fatalf("got %v, %v", families, err)
		}
		got := map[string]float64{}
		for _, m := range families[0].GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
		if diff := cmp.Diff(map[string]float64{"noisy": 3, "quiet": 0}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAHandlerAndDerivedHandlersShareTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		lines := newLimited(t).Lines("kind", 3)
		log := slog.New(lines.Handler(slog.NewTextHandler(&out, nil)))
		for range 10 {
			log.Info("line")
			log.With("key", "value").WithGroup("group").Info("line", "inner", 1)
		}
		if got := strings.Count(out.String(), "\n"); got != 3 || !strings.Contains(out.String(), "key=value group.inner=1") {
			t.Errorf("got %q", out.String())
		}
	})
}

// A dependency that fails and works in turn logs two messages for as long as it does so.
func TestMessagesOfAHandlerHaveTheirOwnBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newLimited(t)
		log := slog.New(l.LinesPerCause("repeated", 3, time.Minute).Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		stop := l.run(t)
		for range 125 { // for two minutes and five seconds
			log.Warn("lost")
			log.Info("found")
			log.Debug("detail")
			time.Sleep(time.Second)
		}
		log.Warn("another")
		stop()
		for message, want := range map[string]int{"lost": 9, "found": 9, "detail": 125, "another": 1} {
			if got := strings.Count(out.String(), "msg="+message); got != want {
				t.Errorf("%d lines %q, want %d", got, message, want)
			}
		}
		reports, suppressed := l.reports(t), 0.0
		for _, report := range reports {
			lines, _ := report["lines"].(float64)
			suppressed += lines
		}
		if len(reports) > 4 || suppressed != 2*(125-9) {
			t.Errorf("%v lines are reported as suppressed: %v", suppressed, reports)
		}
	})
}

func TestNilLinesHaveNoBound(t *testing.T) {
	if got := allowed(nil, "cause", 1000); got != 1000 {
		t.Errorf("%d of 1000 lines were admitted", got)
	}
}

func TestTheBoundAppliesAcrossGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each, bound = 8, 10_000, 40
		l := newLimited(t)
		lines := l.Lines("kind", bound)
		stop := l.run(t)
		var admitted [writers]int
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() { admitted[w] = allowed(lines, "cause", each) })
		}
		wg.Wait()
		stop()
		total := 0
		for _, n := range admitted {
			total += n
		}
		if got := l.reports(t); total != bound || len(got) != 1 || got[0]["lines"] != float64(writers*each-bound) {
			t.Errorf("%d lines were admitted, reported %v", total, got)
		}
	})
}

// The database fails: the dispatcher of notifications logs each attempt, one per second.
func TestRepeatedLinesAreBoundedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger, limiter, err := logging.NewRepeated(slog.NewTextHandler(&out, nil), time.Now, prometheus.NewRegistry())
		testkit.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- limiter.Run(ctx) }()
		const seconds, most = 600, 20 // per minute
		for range seconds {
			logger.Error("looking for due deliveries failed", "cause", "disk full")
			time.Sleep(time.Second)
		}
		logger.With("part", "calls").Warn("finished call")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := strings.Count(out.String(), `msg="looking for due`); n != seconds/60*most || !strings.Contains(out.String(), "finished call") {
			t.Errorf("%d lines", n)
		}
		if n := strings.Count(out.String(), "log lines suppressed"); n < 10 || n > 12 {
			t.Errorf("%d reports of suppressed lines: %s", n, out.String())
		}
	})
}
