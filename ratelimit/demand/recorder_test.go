package demand_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

// A recording is a recorder with its metrics and log.
type recording struct {
	*demand.Recorder
	path     string
	registry *prometheus.Registry
	log      *bytes.Buffer
	stop     func() // ends Run, which writes the queued events
}

// newRecording returns a recorder that does not run. Its sample is 1 by default.
func newRecording(t testing.TB, o demand.Options) *recording {
	t.Helper()
	r := &recording{path: o.Path, registry: prometheus.NewRegistry(), log: new(bytes.Buffer)}
	o.Registerer, o.Logger = r.registry, slog.New(slog.NewTextHandler(r.log, nil))
	o.Sample, o.MaxBytes = cmp.Or(o.Sample, 1), cmp.Or(o.MaxBytes, demand.MinBytes)
	recorder, err := demand.NewRecorder(o)
	testkit.Must(t, err)
	r.Recorder = recorder
	return r
}

// record returns a recorder that runs.
func record(t testing.TB, o demand.Options) *recording {
	t.Helper()
	r := newRecording(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// counted returns the value of a counter; label is the value of its label, or "".
func (r *recording) counted(t testing.TB, name, label string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	testkit.Must(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %s", name, label)
	return 0
}

// read returns all events of the records, and the record, which has been read.
func read(t testing.TB, paths ...string) ([]demand.Event, *demand.Record) {
	t.Helper()
	opened, err := demand.Open(paths...)
	testkit.Must(t, err)
	defer func() { _ = opened.Close() }()
	var events []demand.Event
	for e, err := range opened.Events() {
		testkit.Must(t, err)
		events = append(events, e)
	}
	return events, opened
}

// refusal returns the error of a recorder with the options.
func refusal(o demand.Options) error {
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	o.Logger = slog.New(slog.DiscardHandler)
	_, err := demand.NewRecorder(o)
	return err
}

func path(t testing.TB) string { return filepath.Join(t.TempDir(), "demand.jsonl") }

// noon is the time at which records of these tests begin.
func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

func request(i int) demand.Event {
	return demand.Event{At: noon().Add(time.Duration(i) * time.Millisecond), TokenID: fmt.Sprintf("tok_%d", i), TeamID: "harbour", Allowed: true}
}

func TestRecordedEventsAreReadBack(t *testing.T) {
	at := noon().Add(123456789)
	want := []demand.Event{
		{At: at, TokenID: "tok_1", TeamID: "harbour", Allowed: true, Local: true},
		{At: at.Add(1), TokenID: "tok_2", TeamID: "lighthouse", Denied: "second", RetryAfter: 340 * time.Millisecond, Cached: true},
		{At: at.Add(2), TokenID: "tok_1", RefundOf: at},
		{At: at.Add(3), TokenID: "tok_1", Reset: true},
		{At: at.Add(4), TokenID: "odd \"\\ü\n\x01", TeamID: "<&>", Denied: "ü"},
	}
	p := path(t)
	r := record(t, demand.Options{Path: p, Sample: 1})
	for _, e := range want {
		r.Record(e)
	}
	r.stop()
	got, opened := read(t, p)
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
	if summary := opened.Summary(); summary != (demand.Summary{MinSample: 1, MaxSample: 1}) {
		t.Errorf("got summary %+v", summary)
	}
	if n := r.counted(t, "opsgate_rate_limit_demand_recorded_total", ""); n != 5 {
		t.Errorf("%v events counted", n)
	}
	info, err := os.Stat(p)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestDecisionsRefundsAndResetsAreRecorded(t *testing.T) {
	clock := func() time.Time { return noon().Add(time.Hour) }
	p := path(t)
	r := record(t, demand.Options{Path: p, Clock: clock})
	policy, err := ratelimit.NewPolicy([]ratelimit.Limit{{Name: "second", Requests: 1, Per: time.Second}})
	testkit.Must(t, err)
	admitted := ratelimit.Decision{Allowed: true, DeniedBy: -1, At: noon()}
	denied := ratelimit.Decision{RetryAfter: time.Second, At: noon().Add(1), Local: true, Cached: true}
	ahead := ratelimit.Decision{Allowed: true, At: noon().Add(2 * time.Hour)}
	r.Decided("", "tok_1", "harbour", policy, &admitted)
	r.Decided("", "tok_1", "harbour", policy, &denied)
	r.Refunded("tok_1", &denied) // was not an admission
	r.Refunded("tok_1", &admitted)
	r.Reset("tok_1")
	r.Refunded("tok_1", &ahead)
	r.stop()
	want := []demand.Event{
		{At: noon(), TokenID: "tok_1", TeamID: "harbour", Allowed: true},
		{At: noon().Add(1), TokenID: "tok_1", TeamID: "harbour", Denied: "second", RetryAfter: time.Second, Local: true, Cached: true},
		{At: clock(), TokenID: "tok_1", RefundOf: noon()},
		{At: clock(), TokenID: "tok_1", Reset: true},
		{At: ahead.At, TokenID: "tok_1", RefundOf: ahead.At},
	}
	got, _ := read(t, p)
	for i := range got[:2] {
		if !slices.Equal(got[i].Policy.Limits(), policy.Limits()) {
			t.Errorf("got %+v", got[i].Policy)
		}
		got[i].Policy = nil
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

func TestSampleHasItsShareOfTokens(t *testing.T) {
	forms := []string{"0b0b0b0b-0000-7000-8000-%012d", "tok_%d", "%d"}
	const n = 100_000
	for _, share := range []float64{0.001, 0.01, 0.25, 1} {
		a := record(t, demand.Options{Path: path(t), Sample: share})
		b := record(t, demand.Options{Path: path(t), Sample: share})
		larger := record(t, demand.Options{Path: path(t), Sample: min(1, 2*share)})
		for _, form := range forms {
			sampled := 0
			for i := range n {
				id := fmt.Sprintf(form, i)
				in := a.Sampled(id)
				if in {
					sampled++
				}
				if in != b.Sampled(id) || in && !larger.Sampled(id) {
					t.Fatalf("recorders differ about %s", id)
				}
			}
			if off := math.Abs(float64(sampled) - n*share); off > 5*math.Sqrt(n*share*(1-share)) {
				t.Errorf("%d of %d ids like %s are in a sample of %v", sampled, n, form, share)
			}
		}
	}
}

// Gateways of other versions must record the same tokens.
func TestSampleIsTheSameInEveryVersion(t *testing.T) {
	r := record(t, demand.Options{Path: path(t), Sample: 0.5})
	var in []byte
	for i := range 64 {
		bit := byte('0')
		if r.Sampled(fmt.Sprintf("0b0b0b0b-0000-7000-8000-%012d", i)) {
			bit = '1'
		}
		in = append(in, bit)
	}
	if want := "0011001101001000001111000010000000101101010101011011110010010110"; string(in) != want {
		t.Errorf("got %s, want %s", in, want)
	}
}

func TestNilRecorderRecordsNothing(t *testing.T) {
	var r *demand.Recorder
	r.Record(request(1))
	r.Decided("", "tok_1", "", nil, nil)
	r.Reset("tok_1")
	r.Refunded("tok_1", &ratelimit.Decision{Allowed: true})
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestOptionsAreValidated(t *testing.T) {
	for name, o := range map[string]demand.Options{
		"must be more than 0": {Path: path(t), Sample: 0, MaxBytes: demand.MinBytes},
		"not NaN":             {Path: path(t), Sample: math.NaN(), MaxBytes: demand.MinBytes},
		"at most 1":           {Path: path(t), Sample: 1.1, MaxBytes: demand.MinBytes},
		"must be at least":    {Path: path(t), Sample: 1, MaxBytes: demand.MinBytes - 1},
		"no such file":        {Path: path(t) + "/in/nowhere", Sample: 1, MaxBytes: demand.MinBytes},
		"not a regular file":  {Path: os.DevNull, Sample: 1, MaxBytes: demand.MinBytes},
	} {
		if err := refusal(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	r := record(t, demand.Options{Path: path(t)})
	err := refusal(demand.Options{Path: path(t), Sample: 1, MaxBytes: demand.MinBytes, Registerer: r.registry})
	if !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		t.Errorf("got %v", err)
	}
	families, err := r.registry.Gather()
	testkit.Must(t, err)
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("got %v %v", problems, err)
	}
}

// While Run does not run, the queue fills up. Dropped events are counted, with their time, in the record and in the log.
func TestFullQueueDropsAndCountsEvents(t *testing.T) {
	p := path(t)
	m := newManual(t, demand.Options{Path: p, MaxBytes: 2 * demand.MinBytes})
	const n = 10_000
	m.recordAll(t, 0, n)
	events, opened := read(t, p)
	kept, dropped := len(events), opened.Summary().Dropped
	want := demand.Interruption{Kind: demand.EventsMissing, Path: p, Events: dropped, From: request(kept).At, To: request(n - 1).At}
	if got := opened.Interruptions(); dropped == 0 || kept+int(dropped) != n || len(got) != 1 || got[0] != want {
		t.Errorf("%d events and %d dropped of %d, %+v", kept, dropped, n, got)
	}
	line := fmt.Sprintf("dropped=%d cause=\"events come faster", dropped)
	if log := m.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, line) {
		t.Errorf("the log has %s", log)
	}
}

func TestEventsAreWrittenWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := path(t)
		r := record(t, demand.Options{Path: p})
		r.Record(request(1))
		time.Sleep(time.Second)
		synctest.Wait()
		if events, _ := read(t, p); len(events) != 1 {
			t.Errorf("got %+v", events)
		}
		r.stop()
	})
}

func BenchmarkRecord(b *testing.B) {
	policy, err := ratelimit.NewPolicy([]ratelimit.Limit{{Name: "second", Requests: 1, Per: time.Second}})
	testkit.Must(b, err)
	d := ratelimit.Decision{Allowed: true, DeniedBy: -1, At: noon()}
	for name, share := range map[string]float64{"unsampled": 1e-9, "sampled": 1} {
		b.Run(name, func(b *testing.B) {
			r := record(b, demand.Options{Path: path(b), Sample: share})
			b.ReportAllocs()
			for b.Loop() {
				r.Decided("", "0b0b0b0b-0000-7000-8000-000000000001", "0b0b0b0b-0000-7000-8000-000000000002", policy, &d)
			}
			b.ReportMetric(r.counted(b, "opsgate_rate_limit_demand_dropped_total", "queue_full")/float64(b.N), "dropped/op")
		})
	}
}
