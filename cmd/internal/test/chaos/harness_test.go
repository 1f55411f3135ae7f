package chaos

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"opsgate/internal/testkit"
)

var (
	full = flag.Bool("full", false, "take as long as the table states, and check every bound")

	// programs is the folder of the built programs.
	programs string
	// shared is the backend of tests that do not break their backend.
	shared *backend
	// table collects the measured values.
	table struct {
		sync.Mutex
		figures []figure
	}
)

// figure is a measured value of a test, with its bound.
type figure struct{ test, what, got, bound string }

func TestMain(m *testing.M) {
	flag.Parse()
	if !*full { // the tests wait most of the time
		_ = flag.Set("test.parallel", "3") // cannot fail
	}
	// With the race detector, each program would sleep for a second when it exits; the tests end
	// hundreds of them.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=20") // cannot fail
	os.Exit(testkit.Run(func(dir string) int { return runTests(m, dir) }, "opsgate", "opsbackend"))
}

func runTests(m *testing.M, dir string) int {
	programs = dir
	err := createDemo()
	if err == nil {
		shared, err = launchBackend("127.0.0.1:0", filepath.Join(dir, "data"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the backend:", err)
		return 1
	}
	code := m.Run()
	if *full {
		printTable()
	}
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err, shared.Log.String())
		return 1
	}
	return code
}

func program(name string) string { return filepath.Join(programs, name) }

// printTable prints the figures by test.
func printTable() {
	table.Lock()
	defer table.Unlock()
	slices.SortStableFunc(table.figures, func(a, b figure) int { return cmp.Compare(a.test, b.test) })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\nTEST\tWHAT\tFIGURE\tBOUND")
	for _, f := range table.figures {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.test, f.what, f.got, f.bound)
	}
	_ = w.Flush()
}

// report records a figure with its bound.
func report(t *testing.T, what string, got, bound any) {
	t.Helper()
	f := figure{t.Name(), what, fmt.Sprint(got), fmt.Sprint(bound)}
	t.Logf("%s | %s | %s", f.what, f.got, f.bound)
	table.Lock()
	defer table.Unlock()
	table.figures = append(table.figures, f)
}

// expectNone checks that a count is 0, in both forms.
func expectNone(t *testing.T, what string, n int) {
	t.Helper()
	report(t, what, n, "none")
	if n != 0 {
		t.Errorf("%s: %d", what, n)
	}
}

// atMost checks a count against its bound, in both forms.
func atMost(t *testing.T, what string, n, bound int) {
	t.Helper()
	report(t, what, n, fmt.Sprint("at most ", bound))
	if n > bound {
		t.Errorf("%s: %d, at most %d", what, n, bound)
	}
}

// within checks a time against its bound, with slack in the short form.
func within(t *testing.T, what string, got, bound time.Duration) {
	t.Helper()
	report(t, what, tenths(got), fmt.Sprint("at most ", tenths(bound)))
	if !*full {
		bound += slack
	}
	if got > bound {
		t.Errorf("%s: %v, at most %v", what, got, bound)
	}
}

// tenths rounds to tenths of a millisecond.
func tenths(d time.Duration) time.Duration { return d.Round(time.Millisecond / 10) }

// skipIfShort skips a long test with go test -short.
func skipIfShort(t *testing.T) {
	t.Helper()
	testkit.SkipIfShort(t)
}

// someOf returns the rows of a table, with go test -short only the first.
func someOf[T any](rows []T) []T {
	if testing.Short() {
		return rows[:1]
	}
	return rows
}

// either returns inFull in the full form, and inShort in the short form.
func either[T any](inFull, inShort T) T {
	if *full {
		return inFull
	}
	return inShort
}

const maxWait = testkit.MaxWait

// launch runs a program.
func launch(name string, args ...string) (*testkit.Process, error) {
	return testkit.Launch(exec.Command(program(name), args...))
}

// start runs a program for one test.
func start(t testing.TB, name string, args ...string) *testkit.Process {
	t.Helper()
	return testkit.Start(t, exec.Command(program(name), args...))
}

// sleep waits for d or the end of the test.
func sleep(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// A phase is part of a trial: what begins it, what it waits for, and how long it lasts from then
// on.
type phase struct {
	name  string
	begin func()      // mostly a fault, or its end; nil for nothing
	until func() bool // nil for at once
	lasts time.Duration
}

// A trial is what happened to a load in its phases.
type trial struct {
	responses

	times map[string]phaseTimes
}

type phaseTimes struct{ began, done, reached, ended time.Time }

// through sends the load while the phases follow each other.
func (l load) through(t *testing.T, phases ...phase) *trial {
	t.Helper()
	r := &trial{times: map[string]phaseTimes{}}
	end := l.start(t)
	for _, p := range phases {
		at := phaseTimes{began: time.Now()}
		if p.begin != nil {
			p.begin()
		}
		at.done = time.Now()
		if p.until != nil {
			testkit.Eventually(t, p.name, p.until)
		}
		at.reached = time.Now()
		sleep(t, p.lasts)
		at.ended = time.Now()
		r.times[p.name] = at
	}
	r.responses = end()
	return r
}

// began returns when a phase began.
func (r *trial) began(phase string) time.Time { return r.times[phase].began }

// took returns the time that a phase waited.
func (r *trial) took(phase string) time.Duration {
	return r.times[phase].reached.Sub(r.times[phase].done)
}

// first returns when the first request was sent, and last the last one.
func (r *trial) first() time.Time { return r.responses[0].sent }

func (r *trial) last() time.Time { return r.responses[len(r.responses)-1].sent }

// in returns the responses to requests that were sent in a phase, after it waited.
func (r *trial) in(phase string) responses {
	return r.between(r.times[phase].reached, r.times[phase].ended)
}

// all returns the responses to requests that were sent in a phase, and while it began and waited.
func (r *trial) all(phase string) responses {
	return r.between(r.times[phase].began, r.times[phase].ended)
}

// before returns the responses to requests that were sent before a phase.
func (r *trial) before(phase string) responses { return r.between(time.Time{}, r.began(phase)) }

// since returns the responses to requests that were sent from the beginning of a phase.
func (r *trial) since(phase string) responses { return r.between(r.began(phase), time.Now()) }
