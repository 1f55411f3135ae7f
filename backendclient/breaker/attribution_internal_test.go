package breaker

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An attemptLog is the model of attribution: it keeps every result, and finds out from all of them
// what a failure shows.
type attemptLog []attemptEnd

// An attemptEnd is the result of an attempt.
type attemptEnd struct {
	result     Result
	team       string
	start, end time.Time
}

// shown returns the owner of the latest failure, whether it counts, and whether all attempts fail.
func (l attemptLog) shown(s Settings) (owner string, counts, allFail bool) {
	last := l[len(l)-1]
	var since []attemptEnd // failures since the latest success that no success that started later refutes
	for i, e := range l {
		if e.result == Success {
			since = nil
			continue
		}
		refuted := false
		for _, before := range l[:i] {
			refuted = refuted || before.result == Success && before.start.After(e.start)
		}
		if refuted && i == len(l)-1 {
			return "", e.result == ServiceFailure, false
		}
		if !refuted {
			since = append(since, e)
		}
	}
	first := 0 // that counts
	for first < len(since) && since[first].result == TeamFailure && since[first].team == since[0].team {
		first++
	}
	if first == len(since) { // all of one team
		counts = true
		for _, e := range l {
			counts = counts && (e.result != Success || e.team == last.team || last.end.Sub(e.start) > s.Window)
		}
		return last.team, counts, len(since) >= s.MinRequests && last.end.Sub(since[0].end) >= minOutage
	}
	return "", true, len(since)-first >= s.MinRequests && last.end.Sub(since[first].end) >= minOutage
}

func TestFailuresAreAttributedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{Window: 5 * time.Second, MinRequests: 4}
		a, now := attribution{window: s.Window}, time.Unix(1_800_000_000, 0)
		var log attemptLog
		bias := rapid.SampledFrom([][]Result{
			{Success, TeamFailure, ServiceFailure}, {TeamFailure}, {TeamFailure, TeamFailure, TeamFailure, TeamFailure, TeamFailure, Success},
		}).Draw(t, "bias")
		teams := rapid.IntRange(1, 3).Draw(t, "teams")
		for range rapid.IntRange(1, 60).Draw(t, "attempts") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 1, 100, 200, 3000}).Draw(t, "wait")) * time.Millisecond)
			e := attemptEnd{
				rapid.SampledFrom(bias).Draw(t, "result"), fmt.Sprint("team-", rapid.IntRange(1, teams).Draw(t, "team")),
				now.Add(-time.Duration(rapid.SampledFrom([]int{0, 0, 150, 1000}).Draw(t, "took")) * time.Millisecond), now,
			}
			log = append(log, e)
			if e.result == Success {
				a.succeeded(e.team, e.start)
				continue
			}
			owner, counts := a.failed(e.team, e.result == ServiceFailure, e.start, now)
			wantOwner, wantCounts, wantAll := log.shown(s)
			if owner != wantOwner || counts != wantCounts {
				t.Fatalf("owner %q, counts %t; want %q, %t, after %v", owner, counts, wantOwner, wantCounts, log)
			}
			if counts && a.allFail(s, e.start, now) != wantAll {
				t.Fatalf("all fail: %t, after %v", !wantAll, log)
			}
		}
	})
}

// The number of failing teams in memory is bounded; the one that failed least recently is removed.
func TestFailingTeamsAreBounded(t *testing.T) {
	s, now := Settings{Window: time.Hour, OpenFor: time.Minute}, time.Unix(1_800_000_000, 0)
	f := newFailingTeams(s)
	at := func(i int) time.Time { return now.Add(time.Duration(i) * time.Millisecond) }
	for i := range 2 * maxFailingTeams {
		f.failed(fmt.Sprint(i), at(i))
	}
	if n := len(f.latest); n != maxFailingTeams {
		t.Errorf("%d teams, want %d", n, maxFailingTeams)
	}
	last := 2*maxFailingTeams - 1
	for team, want := range map[int]time.Duration{
		0: 0, maxFailingTeams - 1: 0, maxFailingTeams: time.Minute - at(last).Sub(at(maxFailingTeams)), last: time.Minute,
	} {
		if got := f.wait(fmt.Sprint(team), at(last)); got != want {
			t.Errorf("team %d waits %v, want %v", team, got, want)
		}
	}
	later := at(last).Add(time.Hour)
	for end, want := range map[time.Time]time.Duration{later: time.Minute, later.Add(time.Hour + 1): 0} {
		f.tried(fmt.Sprint(last), end)
		if got := f.wait(fmt.Sprint(last), end); got != want {
			t.Errorf("after an attempt a team waits %v, want %v", got, want)
		}
	}
}
