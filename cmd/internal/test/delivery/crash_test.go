package delivery

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/store/storetest"
)

var seed = flag.Uint64("seed", 1, "seed of the points at which processes are killed")

// The process is killed while it accepts incidents and delivers them. Each acknowledged write has its audit entry, and its key replays its
// response. Each message of each acknowledged notification arrives, with one id, in order, and nothing of a suppressed one.
func TestKilledProcessLosesNoMessage(t *testing.T) {
	incidents, subscribers, killsDuringWrites, killsAfter := 200, 50, 12, 8
	if testing.Short() {
		incidents, subscribers, killsDuringWrites, killsAfter = 40, 20, 3, 3
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	to := startReceivers(t, nil)
	p := newPage(t, to, subscribers)
	s := startService(t, p.data, to)
	begun := time.Now()

	w := &writers{t: t, page: p, service: s, incidents: incidents}
	w.start(4)
	for kill := range killsDuringWrites {
		at := int64(incidents * (kill + 1) / (killsDuringWrites + 1))
		testkit.Eventually(t, "incidents are acknowledged", func() bool { return w.created.Load() >= at })
		s.killWithin(t, random, 20*time.Millisecond)
	}
	w.wait.Wait()
	written := time.Since(begun)
	want := p.notifications(t)
	expected := len(want) * subscribers
	for from, left := to.count(), killsAfter; left > 0; left-- {
		at := from + (expected-from)*(killsAfter-left+1)/(killsAfter+1)
		awaitMessages(t, at, to.count)
		s.killWithin(t, random, 20*time.Millisecond)
	}
	awaitMessages(t, expected, func() int { return len(firstArrivals(to.all())) })
	checkReplays(t, w)
	s.End(t) // what has been sent twice is counted

	arrivals := to.all()
	checkAcknowledged(t, w, want)
	checkAudit(t, w)
	checkArrivals(t, p, want, arrivals)
	t.Logf("%d incidents, %d notifications, %d subscribers, %d kills: %d messages arrived in %v (writes: %v), of which %d (%.2f %%) were repeats",
		incidents, len(want), subscribers, killsDuringWrites+killsAfter, len(arrivals), time.Since(begun).Round(time.Millisecond),
		written.Round(time.Millisecond), len(arrivals)-expected, 100*float64(len(arrivals)-expected)/float64(expected))
}

// killWithin kills the process at a random point of the given time, and starts it again.
func (s *backendProcess) killWithin(t *testing.T, random *rand.Rand, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(time.Duration(random.Int64N(int64(d))))
	defer timer.Stop()
	<-timer.C
	s.Kill()
	s.start(t)
}

// writers create incidents and post updates. They repeat each call with its idempotency key until it is acknowledged.
type writers struct {
	t         *testing.T
	page      *page
	service   *backendProcess
	incidents int
	created   atomic.Int64
	ids       sync.Map // of incidents, by the marks of their first updates
	wait      sync.WaitGroup

	mu           sync.Mutex
	acknowledged []string // marks of notifications that are not suppressed
	suppressed   []string
}

// start starts n writers.
func (w *writers) start(n int) {
	for worker := range n {
		w.wait.Go(func() {
			for i := worker; i < w.incidents; i += n {
				if !w.incident(i) {
					return
				}
			}
		})
	}
}

// incident creates one incident. A third of them get an update, and another third an update that notifies nobody.
func (w *writers) incident(i int) bool {
	var id string
	mark := fmt.Sprintf("mark-%d-0", i)
	if !w.repeat(func(ctx context.Context) error {
		response, err := w.service.incident.CreateIncident(ctx, w.page.incident(mark))
		id = response.GetIncident().GetId()
		return err
	}) {
		return false
	}
	w.note(mark, true)
	w.ids.Store(mark, id)
	w.created.Add(1)
	if i%3 == 0 {
		return true
	}
	notify := i%3 == 1
	mark = fmt.Sprintf("mark-%d-1", i)
	if !w.repeat(func(ctx context.Context) error {
		_, err := w.service.incident.AddIncidentUpdate(ctx, w.page.update(id, mark, notify))
		return err
	}) {
		return false
	}
	w.note(mark, notify)
	return true
}

func (w *writers) note(mark string, notify bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if notify {
		w.acknowledged = append(w.acknowledged, mark)
	} else {
		w.suppressed = append(w.suppressed, mark)
	}
}

// repeat repeats a call until it succeeds. ABORTED means that the call before it is still in progress.
func (w *writers) repeat(call func(ctx context.Context) error) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(maxWait); time.Now().Before(end); <-tick.C {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		err := call(ctx)
		cancel()
		switch status.Code(err) {
		case codes.OK:
			return true
		case codes.Unavailable, codes.Aborted, codes.DeadlineExceeded, codes.Canceled:
		default:
			w.t.Errorf("a call failed: %v", err)
			return false
		}
	}
	w.t.Errorf("a call was not acknowledged within %v", maxWait)
	return false
}

// received names a message to a subscriber.
type received struct{ subscriber, mark string }

// firstArrivals returns the position of the first arrival of each message.
func firstArrivals(arrivals []arrival) map[received]int {
	first := make(map[received]int)
	for i, a := range arrivals {
		if _, ok := first[received{a.subscriber, a.mark}]; !ok {
			first[received{a.subscriber, a.mark}] = i
		}
	}
	return first
}

// checkAcknowledged checks that the notifications are those that were acknowledged.
func checkAcknowledged(t *testing.T, w *writers, notifications []string) {
	t.Helper()
	stored, acknowledged := slices.Sorted(slices.Values(notifications)), slices.Sorted(slices.Values(w.acknowledged))
	if !slices.Equal(stored, acknowledged) {
		t.Errorf("%d notifications are stored, %d were acknowledged", len(stored), len(acknowledged))
	}
	if len(w.suppressed) == 0 {
		t.Error("no notification was suppressed")
	}
}

// checkReplays checks that each key of an incident replays the acknowledged response.
func checkReplays(t *testing.T, w *writers) {
	t.Helper()
	for mark, id := range w.ids.Range {
		again, err := w.service.incident.CreateIncident(t.Context(), w.page.incident(fmt.Sprint(mark)))
		testkit.Must(t, err)
		if !again.GetReplayed() || again.GetIncident().GetId() != id {
			t.Errorf("the key of incident %s returned %v", id, again)
		}
	}
}

// checkAudit checks that the audit entries are those of the acknowledged incidents and updates.
func checkAudit(t *testing.T, w *writers) {
	t.Helper()
	db := storetest.Open(t, w.page.data, "")
	updates := storetest.Column[string](t, db, "SELECT incident_id FROM incident_updates ORDER BY 1")
	entries := storetest.Column[string](t, db, "SELECT resource_id FROM audit_entries WHERE action_type LIKE 'incident.%' ORDER BY 1")
	if acknowledged := len(w.acknowledged) + len(w.suppressed); len(updates) != acknowledged || !slices.Equal(entries, updates) {
		t.Errorf("%d updates were acknowledged, %d are stored, with %d audit entries", acknowledged, len(updates), len(entries))
	}
}

// checkArrivals checks that the first arrivals of each subscriber are the notifications in their order, and that each message has one id.
func checkArrivals(t *testing.T, p *page, notifications []string, arrivals []arrival) {
	t.Helper()
	ids, of := map[received]string{}, map[string]received{}
	order := map[string][]string{}
	for _, a := range arrivals {
		message := received{a.subscriber, a.mark}
		if _, repeated := ids[message]; !repeated {
			ids[message] = a.id
			order[a.subscriber] = append(order[a.subscriber], a.mark)
		}
		if ids[message] != a.id {
			t.Errorf("%s to %s has the ids %s and %s", a.mark, a.subscriber, ids[message], a.id)
		}
		if other, used := of[a.id]; a.id == "" || used && other != message {
			t.Errorf("the id %q is of %v and %v", a.id, other, message)
		}
		of[a.id] = message
	}
	for _, subscriber := range p.subscribers {
		if !slices.Equal(order[subscriber], notifications) {
			t.Errorf("%s received %v, want %v", subscriber, order[subscriber], notifications)
		}
	}
	if len(order) != len(p.subscribers) {
		t.Errorf("messages arrived at %d addresses, want %d", len(order), len(p.subscribers))
	}
}
