package delivery

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/internal/testkit"
)

var (
	seed = flag.Uint64("seed", 1, "seed of the points at which processes are killed")
	many = flag.Int("subscribers", 1000, "subscribers of the page in TestManySubscribers")
)

// awaitMessages waits until n messages have arrived. A hundred further ones have to arrive within
// the longest wait, so that a busy machine may deliver thousands in a longer time.
func awaitMessages(t *testing.T, to *receivers, n int) {
	t.Helper()
	for have := to.count(); have < n; have = to.count() {
		next := min(have+100, n)
		testkit.Eventually(t, fmt.Sprintf("%d of %d messages arrive", next, n), func() bool { return to.count() >= next })
	}
}

// The process is killed while it accepts incidents and delivers them. Each key replays its
// response. Each message of each acknowledged notification arrives, with one id, in the order of
// its incident, and nothing of a suppressed one.
func TestKilledProcessLosesNoMessage(t *testing.T) {
	incidents, subscribers, kills := 200, 50, 10
	if testing.Short() {
		incidents, subscribers, kills = 40, 20, 3
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	to := startReceivers(t, func(string) bool { return false })
	b := startBackend(t, to, subscribers)
	w := &writers{t: t, backend: b, ids: make([]string, incidents)}
	w.start(4)
	for kill := range kills {
		testkit.Eventually(t, "incidents are acknowledged", func() bool { return int(w.created.Load()) >= incidents*(kill+1)/(kills+1) })
		b.killWithin(t, random, 20*time.Millisecond)
	}
	w.wait.Wait()
	expected := subscribers * (incidents + (incidents+1)/3)
	for kill, from := 1, to.count(); kill <= kills; kill++ {
		awaitMessages(t, to, from+(expected-from)*kill/(kills+1))
		b.killWithin(t, random, 20*time.Millisecond)
	}
	awaitMessages(t, to, expected)
	for i, id := range w.ids {
		again, err := b.create(t.Context(), fmt.Sprintf("mark-%d-0", i))
		testkit.Must(t, err)
		if !again.GetReplayed() || again.GetIncident().GetId() != id {
			t.Errorf("the key of incident %s returned %v", id, again)
		}
	}
	b.End(t) // what has been sent twice is counted
	checkArrivals(t, b, to, expected, incidents)
}

// killWithin kills the process at a random point of the given time, and starts it again.
func (b *backend) killWithin(t *testing.T, random *rand.Rand, d time.Duration) {
	t.Helper()
	<-time.After(time.Duration(random.Int64N(int64(d))))
	b.Kill()
	b.start(t)
}

// writers create incidents and post updates. They repeat each call with its idempotency key until
// it is acknowledged.
type writers struct {
	*backend

	t       *testing.T
	created atomic.Int64
	ids     []string // of incidents
	wait    sync.WaitGroup
}

// start starts n writers.
func (w *writers) start(n int) {
	for worker := range n {
		w.wait.Go(func() {
			for i := worker; i < len(w.ids); i += n {
				w.write(i)
			}
		})
	}
}

// write creates one incident. A third of them get an update, and another third an update that
// sends no notification.
func (w *writers) write(i int) {
	w.repeat(func(ctx context.Context) error {
		response, err := w.create(ctx, fmt.Sprintf("mark-%d-0", i))
		w.ids[i] = response.GetIncident().GetId()
		return err
	})
	if w.created.Add(1); i%3 != 0 {
		w.repeat(func(ctx context.Context) error { return w.update(ctx, w.ids[i], fmt.Sprintf("mark-%d-1", i), i%3 == 1) })
	}
}

// repeat repeats a call until it succeeds. ABORTED means that the call before it is still in
// progress.
func (w *writers) repeat(call func(ctx context.Context) error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	err := context.DeadlineExceeded
	for end := time.Now().Add(testkit.MaxWait); err != nil && time.Now().Before(end); <-tick.C {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		err = call(ctx)
		cancel()
		if c := status.Code(err); err != nil && c != codes.Unavailable && c != codes.Aborted && c != codes.DeadlineExceeded && c != codes.Canceled {
			break
		}
	}
	if err != nil {
		w.t.Errorf("a call was not acknowledged: %v", err)
	}
}

// checkArrivals checks that each subscriber got each notification, the first of an incident before
// its update, each with an id of its own.
func checkArrivals(t *testing.T, b *backend, to *receivers, expected, incidents int) {
	t.Helper()
	to.mu.Lock()
	defer to.mu.Unlock()
	t.Logf("%d messages, %d of them twice", expected, len(to.arrivals)-expected)
	used := map[string]bool{}
	for a, ids := range to.ids {
		for id := range ids {
			if len(ids) != 1 || id == "" || used[id] {
				t.Errorf("%v has the ids %v", a, ids)
			}
			used[id] = true
		}
	}
	if len(to.ids) != expected {
		t.Errorf("%d messages arrived, want %d", len(to.ids), expected)
	}
	first := map[arrival]int{}
	for i, a := range slices.Backward(to.arrivals) {
		first[a] = i
	}
	for _, subscriber := range b.subscribers {
		for i := range incidents {
			created, begun := first[arrival{subscriber, fmt.Sprintf("mark-%d-0", i)}]
			updated, posted := first[arrival{subscriber, fmt.Sprintf("mark-%d-1", i)}]
			if !begun || posted != (i%3 == 1) || posted && updated < created {
				t.Errorf("incident %d to %s: created %v at %d, update %v at %d", i, subscriber, begun, created, posted, updated)
			}
		}
	}
}

// The process survives the end of the program that reads its log.
func TestClosedLogDoesNotEndTheProcess(t *testing.T) {
	log, output, err := os.Pipe()
	testkit.Must(t, err)
	command := exec.Command(filepath.Join(programs, "opsbackend"), "serve", "--listen="+testkit.FreeAddress(t), "--data-dir="+t.TempDir())
	command.Stderr = output
	testkit.Must(t, command.Start())
	testkit.Must(t, output.Close())
	for lines := bufio.NewScanner(log); lines.Scan() && !strings.Contains(lines.Text(), "serving"); {
	}
	testkit.Must(t, log.Close())
	testkit.Must(t, command.Process.Signal(syscall.SIGTERM)) // which is logged
	testkit.Must(t, command.Wait())
}

// One incident is delivered to many subscribers, also while some webhooks accept the connection and
// never respond. The test prints the figures.
func TestManySubscribers(t *testing.T) {
	testkit.SkipIfShort(t)
	const hanging = 4
	to := startReceivers(t, func(url string) bool {
		number, err := strconv.Atoi(path.Base(url))
		return err == nil && number <= 2*hanging // every second subscriber has a webhook
	})
	b := startBackend(t, to, *many)
	begun := time.Now()
	_, err := b.create(t.Context(), "mark-1-0")
	testkit.Must(t, err)
	created := time.Since(begun)
	awaitMessages(t, to, *many-hanging)
	took := time.Since(begun)
	if n := to.count(); n != *many-hanging {
		t.Errorf("%d of %d subscribers received the message", n, *many)
	}
	t.Logf("%d subscribers, %d of which hang: the call took %v, the messages %v, %.0f a second", *many, hanging,
		created.Round(time.Millisecond), took.Round(time.Millisecond), float64(*many-hanging)/took.Seconds())
}
