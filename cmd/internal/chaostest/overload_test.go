package chaostest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A victim is a gateway to which something is done, and another client of it who must not notice.
type victim struct {
	*gateway

	other  callers
	usual  time.Duration // the other's p99 while nothing is done
	rss    float64
	loses  float64 // the part of the other's requests that may fail
	row    string
	memory int // MB by which the gateway may grow
	times  int // the factor by which the other's p99 may grow
}

func newVictim(t *testing.T, g *gateway, client *http.Client, url string) *victim {
	t.Helper()
	v := &victim{gateway: g, row: "17", times: 2, memory: moreMemory(), other: callers{
		client: client, token: always(tokens(t)["full"].Text), rate: either(200.0, 50.0), number: 16, url: always(somewhere(url)),
	}}
	v.other.during(t, time.Second)
	v.usual = v.other.during(t, either(3*time.Second, time.Second)).percentile(.99)
	v.rss = g.metric(t, "process_resident_memory_bytes")
	return v
}

// spell is how long a machine may stand still that does other things too, while something heavy is done on it.
const spell = 10 * time.Second

// unhurt holds a p99 to twice of what it was before.
func atMostDoubled(t *testing.T, row, what string, got, usual time.Duration) {
	t.Helper()
	atMostTimes(t, row, what, got, usual, 2)
}

// grownAtMost holds a p99 to a multiple of what it was before. Below ten milliseconds it is mostly the machine's, which clients and backends
// are on as well, and in the short form altogether: that one shows it and holds that no request failed.
func atMostTimes(t *testing.T, row, what string, got, usual time.Duration, times int) {
	t.Helper()
	if !*full {
		report(t, row, what, tenths(got), "not held here")
		return
	}
	within(t, row, what, got, time.Duration(times)*max(usual, 10*time.Millisecond))
}

// moreMemory bounds by how many MB a gateway may grow in an attack. In the short form it may have the race detector in it, with which
// everything takes several times as much, and more the longer the attack takes on a busy machine.
func moreMemory() int { return either(100, 1000) }

// A observation is what an operator sees of a gateway while something is done to it.
type observation struct {
	rss     float64       // the most
	slowest time.Duration // answer of the admin listener
	err     error         // of the last that did not come
}

// watch looks at the gateway's metrics until it is told to stop.
func (v *victim) watch(t *testing.T) (stop func() observation) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var seen observation
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			begun := time.Now()
			rss, err := residentMemory(t.Context(), v.admin)
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if text, ok := strings.CutPrefix(line, "process_resident_memory_bytes "); ok {
			return strconv.ParseFloat(strings.TrimSpace(text), 64)
		}
	}
	return 0, errors.New("no resident memory among the metrics")
}

// bears holds that nobody else is hurt by what is done.
func (v *victim) checkDuring(t *testing.T, what string, done func()) {
	t.Helper()
	stopOther, stopWatching := v.other.start(t), v.watch(t)
	done()
	others, seen := stopOther(), stopWatching()
	lost := others.failed()
	atMost(t, v.row, fmt.Sprintf("%s: of %d requests of another client, failed", what, len(others)), len(lost), int(v.loses*float64(len(others))))
	atMostTimes(t, v.row, fmt.Sprintf("%s: p99 of another client (%v without)", what, tenths(v.usual)), others.percentile(.99), v.usual, v.times)
	within(t, v.row, what+": slowest answer to an operator", seen.slowest, time.Second)
	atMost(t, v.row, what+": resident memory, MB more", int(seen.rss-v.rss)/1e6, v.memory)
	if seen.err != nil {
		t.Error(seen.err)
	}
}
