package demand_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/demand"
)

// A manual recorder writes when the test calls write.
type manual struct {
	*recording

	now time.Time
}

func newManual(t testing.TB, o demand.Options) *manual {
	t.Helper()
	m := &manual{now: noon()}
	o.Clock = func() time.Time { return m.now }
	m.recording = newRecording(t, o)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// write writes the queued events.
func (m *manual) write(t testing.TB) {
	t.Helper()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	testkit.Must(t, m.Run(ended))
}

// recordAll records and writes the requests with numbers from (inclusive) to (exclusive).
func (m *manual) recordAll(t testing.TB, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		m.Record(request(i))
	}
	m.write(t)
}

func (m *manual) dropped(t testing.TB) float64 {
	t.Helper()
	return m.counted(t, "opsgate_rate_limit_demand_dropped_total", "unwritable")
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return 0
	}
	testkit.Must(t, err)
	return info.Size()
}

func TestRecordKeepsTheNewestEventsWithinItsBound(t *testing.T) {
	p := path(t)
	m := newManual(t, demand.Options{Path: p, MaxBytes: demand.MinBytes})
	const n, step = 60_000, 500
	for i := 0; i < n; i += step {
		m.recordAll(t, i, i+step)
		if now := size(t, p) + size(t, p+".1"); now > demand.MinBytes {
			t.Fatalf("%d bytes after %d requests", now, i+step)
		}
	}
	events, opened := read(t, p)
	if len(events) < 4000 || opened.Summary().Dropped > 0 {
		t.Fatalf("%d events, and %d dropped", len(events), opened.Summary().Dropped)
	}
	for i, e := range events {
		if want := request(n - len(events) + i); e != want {
			t.Fatalf("event %d of %d is %+v", i, len(events), e)
		}
	}
	if mode, err := os.Stat(p + ".1"); err != nil || mode.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", mode.Mode(), err)
	}
}

func TestRestartAppendsToTheRecord(t *testing.T) {
	p := path(t)
	for i := range 3 {
		m := newManual(t, demand.Options{Path: p, Sample: []float64{1, 0.999, 0.9999}[i]})
		m.recordAll(t, 10*i, 10*i+5)
		testkit.Must(t, m.Close())
		appendTo(t, p, `{"at":"2026-01-02T12`) // killed while writing the next line
	}
	events, opened := read(t, p)
	if len(events) != 15 || events[14] != request(24) {
		t.Errorf("got %+v", events)
	}
	if summary := opened.Summary(); summary != (demand.Summary{MinSample: 0.999, MaxSample: 1}) {
		t.Errorf("got %+v", summary)
	}
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	testkit.Must(t, err)
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, f.Close())
}

func TestRecordLargerThanItsBoundIsReplaced(t *testing.T) {
	p := path(t)
	m := newManual(t, demand.Options{Path: p, MaxBytes: 8 * demand.MinBytes})
	for i := range 8 {
		m.recordAll(t, 6000*i, 6000*(i+1))
	}
	testkit.Must(t, m.Close())
	if size(t, p) < demand.MinBytes {
		t.Fatal("the record is small")
	}
	m = newManual(t, demand.Options{Path: p})
	m.recordAll(t, 0, 3)
	if events, _ := read(t, p); len(events) != 3 {
		t.Errorf("%d events", len(events))
	}
}

func TestOtherFilesAreNotOverwritten(t *testing.T) {
	large := strings.Repeat("something else\n", demand.MinBytes/10)
	for _, test := range []struct{ suffix, content string }{{"", "something else"}, {"", large}, {".1", large}} {
		p := path(t)
		appendTo(t, p+test.suffix, test.content)
		err := refusal(demand.Options{Path: p, Sample: 1, MaxBytes: demand.MinBytes})
		if err == nil || !strings.Contains(err.Error(), p+test.suffix+": is not a record of demand") {
			t.Errorf("got %v", err)
		}
		if content, err := os.ReadFile(p + test.suffix); err != nil || string(content) != test.content {
			t.Errorf("the file has %d bytes now: %v", len(content), err)
		}
	}
}

func TestRecorderLocksItsFile(t *testing.T) {
	p := path(t)
	newManual(t, demand.Options{Path: p})
	err := refusal(demand.Options{Path: p, Sample: 1, MaxBytes: demand.MinBytes})
	if err == nil || !strings.Contains(err.Error(), "another process writes to it") {
		t.Errorf("got %v", err)
	}
}

func TestRemovedFileIsCreatedAgain(t *testing.T) {
	p := path(t)
	m := newManual(t, demand.Options{Path: p})
	m.recordAll(t, 0, 3)
	testkit.Must(t, os.Remove(p))
	m.recordAll(t, 3, 7)
	if events, _ := read(t, p); len(events) != 4 || m.dropped(t) != 0 {
		t.Errorf("got %+v", events)
	}
}

// A folder at the path of the file makes writing impossible for some time.
func TestWriteFailureIsCountedLoggedOnceAMinuteAndRepaired(t *testing.T) {
	p := path(t)
	m := newManual(t, demand.Options{Path: p})
	testkit.Must(t, os.Remove(p))
	testkit.Must(t, os.Mkdir(p, 0o700))
	for i := range 121 { // seconds
		m.recordAll(t, i, i+1)
		m.now = m.now.Add(time.Second)
	}
	if got := m.dropped(t); got != 121 {
		t.Errorf("%v counted", got)
	}
	lines := strings.Split(strings.TrimSpace(m.log.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "dropped=60") || !strings.Contains(lines[2], "not a regular file") {
		t.Errorf("the log has\n%s", m.log)
	}
	testkit.Must(t, os.Remove(p))
	m.recordAll(t, 200, 203)
	m.recordAll(t, 203, 206)
	if events, opened := read(t, p); len(events) != 6 || opened.Summary().Dropped != 121 {
		t.Errorf("got %+v, %+v", events, opened.Summary())
	}
	if n := strings.Count(m.log.String(), "demand is recorded again"); n != 1 || m.dropped(t) != 121 {
		t.Errorf("the log has\n%s", m.log)
	}
}

func TestEventWithATooLongIDIsDropped(t *testing.T) {
	m := newManual(t, demand.Options{Path: path(t)})
	e := request(1)
	e.TokenID = strings.Repeat("x", 1025)
	m.Record(e)
	e.TokenID = strings.Repeat("\x01", 1024)
	e.TeamID = e.TokenID
	m.Record(e)
	m.write(t)
	if m.dropped(t) != 1 || m.counted(t, "opsgate_rate_limit_demand_recorded_total", "") != 1 {
		t.Errorf("%v dropped", m.dropped(t))
	}
}

// BenchmarkWrite measures an event from its recording to the file.
func BenchmarkWrite(b *testing.B) {
	m := newManual(b, demand.Options{Path: path(b), MaxBytes: 64 << 20})
	e := request(1)
	e.TokenID, e.TeamID = "0b0b0b0b-0000-7000-8000-000000000001", "0b0b0b0b-0000-7000-8000-000000000002"
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N / 8000 {
		for range 8000 {
			m.Record(e)
		}
		m.write(b)
	}
	b.StopTimer()
	if content, err := os.ReadFile(m.path); err == nil {
		b.ReportMetric(float64(len(content))/float64(max(1, bytes.Count(content, []byte("\n")))), "B/event")
	}
	if n := m.dropped(b); n > 0 {
		b.Error(fmt.Sprint(n, " dropped"))
	}
}
