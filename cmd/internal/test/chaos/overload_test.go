package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// victim is a gateway under attack, with another client that must not be affected.
type victim struct {
	*gateway

	other     load
	baseline  time.Duration // p99 of the other client without the attack
	rss       float64
	maxFailed float64 // ratio of the other client's requests
	row       string
	maxMemory int // growth in MB
	maxFactor int // growth of the other client's p99; 0 for no bound of times
}

func newVictim(t *testing.T, g *gateway, client *http.Client) *victim {
	t.Helper()
	v := &victim{gateway: g, row: "17", maxFactor: 2, maxMemory: maxMemoryGrowth(), other: load{
		gateways: []*gateway{g}, client: client, rate: either(200.0, 50.0), clients: 16,
	}}
	v.other.during(t, time.Second)
	v.baseline = v.other.during(t, either(3*time.Second, time.Second)).percentile(.99)
	v.rss = g.metric(t, "process_resident_memory_bytes")
	return v
}

// slack is added to bounds on time in the short form, which may run on a busy machine.
const slack = 10 * time.Second

// atMostDoubled checks that a p99 at most doubled.
func atMostDoubled(t *testing.T, row, what string, got, baseline time.Duration) {
	t.Helper()
	atMostTimes(t, row, what, got, baseline, 2)
}

// atMostTimes checks a p99 against a multiple of its baseline, which counts as at least 10 ms: shorter times depend mostly on the load
// of the machine. The short form only reports it.
func atMostTimes(t *testing.T, row, what string, got, baseline time.Duration, times int) {
	t.Helper()
	if !*full || times == 0 {
		report(t, row, what, tenths(got), "not checked")
		return
	}
	within(t, row, what, got, time.Duration(times)*max(baseline, 10*time.Millisecond))
}

// maxMemoryGrowth returns the allowed growth of a gateway in MB. In the short form the gateway may run with the race detector, which
// multiplies its memory.
func maxMemoryGrowth() int { return either(100, 1000) }

// observation has the measurements of a program during an attack.
type observation struct {
	rss     float64       // maximum
	slowest time.Duration // response of the admin listener
	err     error         // of the last failed request
}

// watch polls the metrics at an admin listener until it is stopped.
func watch(t *testing.T, admin string) (stop func() observation) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var seen observation
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			begun := time.Now()
			rss, err := residentMemory(t.Context(), admin)
			if err != nil {
				seen.err = err
			}
			seen.rss, seen.slowest = max(seen.rss, rss), max(seen.slowest, time.Since(begun))
		}
	})
	return func() observation {
		cancel()
		watching.Wait()
		return seen
	}
}

func residentMemory(ctx context.Context, admin string) (float64, error) {
	page := ask(ctx, http.DefaultClient, http.MethodGet, admin+"/metrics", "", "")
	if page.err != nil {
		return 0, page.err
	}
	for line := range strings.Lines(string(page.body)) {
		if text, ok := strings.CutPrefix(line, "process_resident_memory_bytes "); ok {
			return strconv.ParseFloat(strings.TrimSpace(text), 64)
		}
	}
	return 0, errors.New("no resident memory among the metrics")
}

// checkDuring runs an attack and checks that the other client is not affected.
func (v *victim) checkDuring(t *testing.T, what string, done func()) {
	t.Helper()
	stopOther, stopWatching := v.other.start(t), watch(t, v.admin)
	done()
	others, seen := stopOther(), stopWatching()
	lost := others.failed()
	atMost(t, v.row, fmt.Sprintf("%s: of %d requests of another client, failed", what, len(others)), len(lost), int(v.maxFailed*float64(len(others))))
	atMostTimes(t, v.row, fmt.Sprintf("%s: p99 of another client (%v without)", what, tenths(v.baseline)), others.percentile(.99), v.baseline, v.maxFactor)
	if v.maxFactor > 0 {
		within(t, v.row, what+": slowest response of the admin listener", seen.slowest, time.Second)
	}
	atMost(t, v.row, what+": growth of resident memory, MB", int(seen.rss-v.rss)/1e6, v.maxMemory)
	if seen.err != nil {
		t.Error(seen.err)
	}
}
