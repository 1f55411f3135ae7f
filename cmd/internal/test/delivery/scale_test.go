package delivery

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

var many = flag.Int("subscribers", 2000, "subscribers of the page in TestManySubscribers")

const (
	// apiRate is the interval of API calls while messages are delivered.
	apiRate = 10 * time.Millisecond
	// baseline is how long API calls are measured before the delivery.
	baseline = 5 * time.Second
	// hanging is the number of receivers that accept the connection and never respond.
	hanging = 4
	// mostMemory is by how much the peak of resident memory may grow with the number of subscribers. The test fails if all messages or
	// subscribers are read at once, not because of the allocator.
	mostMemory = 48 << 20
)

// One incident is delivered to many subscribers. Memory does not grow with them, and API calls do not wait for the delivery. The test
// prints the figures; docs/develop/deliveries.md has those of 10,000 subscribers.
func TestManySubscribers(t *testing.T) {
	testkit.SkipIfShort(t)
	few, lots := deliverTo(t, 100), deliverTo(t, *many)
	if few.peak > 0 && lots.peak > few.peak+mostMemory && !testkit.Race { // the detector needs several times the memory
		t.Errorf("%d subscribers need %s, 100 need %s", *many, mebibytes(lots.peak), mebibytes(few.peak))
	}
	for _, f := range []figures{few, lots} {
		t.Logf("%d subscribers, %d of which hang: %v, %.0f messages/s; resident memory %s before, %s at most; "+
			"p50 and p99 before and meanwhile: reads %v, writes %v",
			f.subscribers, hanging, f.took.Round(time.Millisecond), float64(f.subscribers-hanging)/f.took.Seconds(),
			mebibytes(f.before), mebibytes(f.peak), latencies(f, read), latencies(f, write))
	}
}

// figures are the measurements of one delivery.
type figures struct {
	subscribers  int
	took         time.Duration
	before, peak int          // resident memory in bytes; 0 where the system does not report it
	idle, busy   [2]durations // by kind of call
}

// Kinds of API calls.
const (
	read = iota
	write
)

func latencies(f figures, kind int) string {
	idle, busy := f.idle[kind], f.busy[kind]
	return fmt.Sprintf("%v, %v and %v, %v", idle.p(50), idle.p(99), busy.p(50), busy.p(99))
}

func deliverTo(t *testing.T, subscribers int) figures {
	t.Helper()
	to := startReceivers(t, func(ctx context.Context, subscriber string) bool {
		number, err := strconv.Atoi(path.Base(subscriber))
		if err != nil || number > 2*hanging { // every second subscriber has a webhook
			return false
		}
		<-ctx.Done()
		return true
	})
	p := newPage(t, to, subscribers)
	s := startService(t, p.data, to)
	f := figures{subscribers: subscribers}
	calls := startCalls(t, s, p)
	calls.during(baseline)
	f.idle = calls.take()
	f.before = s.memory(t, "VmRSS")

	begun := time.Now()
	_, err := s.incident.CreateIncident(t.Context(), p.incident("mark-1-0"))
	testkit.Must(t, err)
	awaitMessages(t, subscribers-hanging, to.count)
	f.took = time.Since(begun)
	f.busy = calls.take()
	calls.stop()
	f.peak = s.memory(t, "VmHWM")
	if n := len(firstArrivals(to.all())); n != subscribers-hanging {
		t.Errorf("%d of %d subscribers received the message", n, subscribers)
	}
	return f
}

// memory returns a field of the process's status in bytes, or 0 if the system has none.
func (s *backendProcess) memory(t *testing.T, field string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\n"+field+":")
	words := strings.Fields(rest)
	if len(words) < 2 || words[1] != "kB" {
		t.Fatalf("no %s in %s", field, status)
	}
	n, err := strconv.Atoi(words[0])
	testkit.Must(t, err)
	return n << 10
}

func mebibytes(n int) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// calls calls the API at a fixed rate, whether or not earlier calls have returned.
type calls struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu   sync.Mutex
	took [2]durations
}

// startCalls lists, gets and creates incidents in turn. The created ones are on no page, so they send no notifications.
func startCalls(t *testing.T, s *backendProcess, p *page) *calls {
	t.Helper()
	c := new(calls)
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	create := p.incident("")
	create.StatusPageId = nil
	create.Status = incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED // the number of open incidents is bounded
	first, err := s.incident.CreateIncident(ctx, create)
	testkit.Must(t, err)
	kinds := []int{read, read, write}
	methods := []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := s.incident.GetIncident(ctx, &incidentv1.GetIncidentRequest{TeamId: p.team, IncidentId: first.GetIncident().GetId()})
			return err
		},
		func(ctx context.Context) error {
			_, err := s.incident.ListIncidents(ctx, &incidentv1.ListIncidentsRequest{TeamId: p.team, PageSize: 50})
			return err
		},
		func(ctx context.Context) error {
			_, err := s.incident.CreateIncident(ctx, create)
			return err
		},
	}
	c.wait.Go(func() {
		tick := time.NewTicker(apiRate)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			c.wait.Go(func() { c.measure(ctx, t, kinds[i%len(kinds)], methods[i%len(methods)]) })
			<-tick.C
		}
	})
	t.Cleanup(c.stop)
	return c
}

func (c *calls) measure(ctx context.Context, t *testing.T, kind int, method func(context.Context) error) {
	t.Helper()
	begun := time.Now()
	err := method(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		t.Errorf("an API call failed: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took[kind] = append(c.took[kind], time.Since(begun))
}

// during waits while calls are made.
func (c *calls) during(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// take returns the durations since the last call of take.
func (c *calls) take() [2]durations {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.took
	c.took = [2]durations{}
	return taken
}

func (c *calls) stop() {
	c.cancel()
	c.wait.Wait()
}

type durations []time.Duration

// p returns a percentile.
func (d durations) p(percent int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)].Round(10 * time.Microsecond)
}
