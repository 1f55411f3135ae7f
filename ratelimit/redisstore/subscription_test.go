package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// drops are the drops of a cache: of a denial as the token's id, of a token as "reset " and its id.
type drops chan string

func (d drops) DropDenial(tokenID string) { d <- tokenID }
func (d drops) Drop(tokenID string)       { d <- "reset " + tokenID }

// run runs a store until the end of the test.
func run(t *testing.T, s *redisstore.Store, c redisstore.Cache) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, c) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func decide(t testing.TB, s ratelimit.Store, token string, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	d, err := s.Decide(t.Context(), token, p)
	testkit.Must(t, err)
	return d
}

func hourly(t testing.TB, n int) *ratelimit.Policy {
	t.Helper()
	return ratelimittest.Policy(t, limit("hour", n, time.Hour))
}

// Each gateway receives refunds and resets by all gateways, and "" after a new subscription.
func TestRefundsAndResetsArePublished(t *testing.T) {
	server := redistest.Start(t)
	o := redisclient.Options{Addresses: []string{server.Addr()}}
	here, dropped := newStore(t, redisstore.Options{Client: newClient(t, o)}), make(drops, 100)
	run(t, here, dropped)
	there := newStore(t, redisstore.Options{Client: newClient(t, o)})
	p := hourly(t, 1)
	for round := range 2 {
		if got := <-dropped; got != "" {
			t.Errorf("round %d: %q dropped, want all denials after subscribing", round, got)
		}
		testkit.Eventually(t, "it is subscribed", here.Subscribed)
		admitted := decide(t, there, "t", p)
		for range 2 { // the second refund changes nothing
			testkit.Must(t, there.Refund(t.Context(), "t", admitted))
		}
		testkit.Must(t, there.Reset(t.Context(), "other"))
		if first, second := <-dropped, <-dropped; first != "t" || second != "reset other" {
			t.Errorf("round %d: %q and %q dropped", round, first, second)
		}
		if round == 0 {
			server.Restart()
		}
	}
}

// A user may lack the right to publish.
func TestResetThatCannotBePublishedIsAReset(t *testing.T) {
	server, log := redistest.Start(t), new(testkit.Buffer)
	s := newStore(t, redisstore.Options{
		Client: newClient(t, redisclient.Options{Addresses: []string{server.Addr()}}), Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	p := hourly(t, 10)
	decide(t, s, "t", p)
	testkit.Must(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "-publish").Err())
	testkit.Must(t, s.Reset(t.Context(), "t"))
	if n := used(t, s, "t", p); n != 0 || !strings.Contains(log.String(), "not known to other gateways") {
		t.Errorf("%d counted, logged %s", n, log)
	}
}

// A full window of times replaces a refunded time by a copy of the oldest. A refund of the oldest
// itself changes nothing, and is not published.
func TestRefundOfTheOldestOfAFullWindowIsNotPublished(t *testing.T) {
	server := redistest.Start(t)
	dropped, clock := make(drops, 100), newClock()
	s := newStore(t, redisstore.Options{
		Client: newClient(t, redisclient.Options{Addresses: []string{server.Addr()}}), Clock: clock.Now,
	})
	run(t, s, dropped)
	p := ratelimittest.Policy(t, limit("second", 64, time.Second), shadow(limit("hour", 64, time.Hour)))
	testkit.Eventually(t, "it is subscribed", s.Subscribed)
	oldest := decide(t, s, "t", p)
	clock.Advance(2 * time.Second)
	for range 64 {
		decide(t, s, "t", p)
	}
	testkit.Must(t, s.Refund(t.Context(), "t", oldest))
	testkit.Must(t, s.Refund(t.Context(), "other", decide(t, s, "other", p)))
	if first, second := <-dropped, <-dropped; first != "" || second != "other" {
		t.Errorf("%q and %q refunded", first, second)
	}
}

// Times before April 1970 count as that time, in refunds too.
func TestRefundOfAVeryOldTimeIsExecuted(t *testing.T) {
	server := redistest.Start(t)
	s := newStore(t, redisstore.Options{
		Client: newClient(t, redisclient.Options{Addresses: []string{server.Addr()}}), Clock: func() time.Time { return time.UnixMicro(7) },
	})
	p := hourly(t, 10)
	decide(t, s, "t", p)
	testkit.Must(t, s.Refund(t.Context(), "t", ratelimit.Decision{Allowed: true, At: time.UnixMicro(7)}))
	if n := used(t, s, "t", p); n != 0 {
		t.Errorf("%d counted", n)
	}
}

// lines is a log whose lines are sent to a channel.
type lines chan string

// Write implements [io.Writer].
func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// valueOf returns the value of a metric without labels.
func valueOf(t *testing.T, metrics *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	testkit.Must(t, err)
	for _, f := range families {
		if m := f.GetMetric()[0]; f.GetName() == name {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// A subscription that ends or hangs is replaced by a new one.
func TestBrokenSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, redisclient.Options{Addresses: []string{server.Addr()}, Timeout: 500 * time.Millisecond})
	metrics, log := prometheus.NewRegistry(), make(lines, 100)
	s := newStore(t, redisstore.Options{Client: client, Registerer: metrics, Logger: slog.New(slog.NewTextHandler(log, nil))})
	s.SetLastsAfter(time.Millisecond)
	run(t, s, make(drops, 1000))
	subscribed := func(want bool) func() bool {
		return func() bool {
			return s.Subscribed() == want && (valueOf(t, metrics, "opsgate_rate_limit_redis_refunds_subscribed") == 1) == want
		}
	}
	testkit.Eventually(t, "it is subscribed", subscribed(true))
	testkit.Must(t, server.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	if line := <-log; !strings.Contains(line, "no subscription") { // the metric is 0 for a short time only
		t.Errorf("logged %q", line)
	}
	testkit.Eventually(t, "it is subscribed again", subscribed(true))
	server.Pause()
	testkit.Eventually(t, "the hang is detected", subscribed(false))
	server.Resume()
	testkit.Eventually(t, "it is subscribed after the hang", subscribed(true))
}

// A user that may not execute PING loses each subscription at its first ping. That is one
// interruption for the log and the metric.
func TestRepeatedInterruptionsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mayPing := func(rule string) {
		t.Helper()
		testkit.Must(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", rule).Err())
	}
	mayPing("-ping")
	metrics, log := prometheus.NewRegistry(), new(testkit.Buffer)
	subscribed := func() float64 { return valueOf(t, metrics, "opsgate_rate_limit_redis_refunds_subscribed") }
	s := newStore(t, redisstore.Options{
		Client: newClient(t, redisclient.Options{Addresses: []string{server.Addr()}}), Registerer: metrics,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	s.SetLastsAfter(time.Second)
	subscriptions := make(drops, 1000)
	run(t, s, subscriptions)
	testkit.Eventually(t, "three subscriptions have ended", func() bool {
		if subscribed() != 0 {
			t.Fatalf("the subscription is reported as working after %d subscriptions", len(subscriptions))
		}
		return len(subscriptions) > 3
	})
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "no subscription to refunds") || !strings.Contains(text, "NOPERM") {
		t.Errorf("logged %s", text)
	}
	mayPing("+ping")
	testkit.Eventually(t, "a subscription lasts", func() bool { return subscribed() == 1 })
	testkit.Eventually(t, "the recovery is logged", func() bool { return strings.Contains(log.String(), "received again") })
	if text := log.String(); strings.Count(text, "\n") != 2 || !regexp.MustCompile(`failures=([3-9]|\d\d)`).MatchString(text) {
		t.Errorf("logged %s", text)
	}
}

func TestMetricsHaveNoTokensAndConventionalNames(t *testing.T) {
	server := redistest.Start(t)
	metrics := prometheus.NewRegistry()
	s := newStore(t, redisstore.Options{Client: newClient(t, redisclient.Options{Addresses: []string{server.Addr()}}), Registerer: metrics})
	decide(t, s, "0b0b0b0b-0000", specified(t))
	families, err := metrics.Gather()
	if err != nil || len(families) != 4 || strings.Contains(fmt.Sprint(families), "0b0b0b0b") {
		t.Errorf("%v, error %v", families, err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("problems %v, error %v", problems, err)
	}
}
