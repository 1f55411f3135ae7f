package endpoints

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An event is what happens at an endpoint. No two events are at the same time.
type event struct {
	endpoint int
	// kind is "begin", "ok", "failed", "timed out" or "canceled" for a call; "answer" for an answer
	// that is no result; "over" when an ejection ends in time, "new" when the endpoint begins anew
	// for another reason.
	kind string
	team string // of a call
	at   time.Time
}

// An eventLog is the model of outliers: it keeps every event, and finds out from all of them which
// endpoints are outliers or silent.
type eventLog []event

// A tally counts the calls of a team to an endpoint that failed since its latest success, and those
// to others since the first of them.
type tally struct{ failures, successesElsewhere, failuresElsewhere int }

func (l eventLog) tallies(endpoint int) (byTeam map[string]tally, onProbation bool) {
	byTeam = make(map[string]tally)
	for _, e := range l {
		t, failed := byTeam[e.team], e.kind == "failed" || e.kind == "timed out"
		switch {
		case e.endpoint == endpoint && slices.Contains([]string{"ok", "new", "over"}, e.kind):
			clear(byTeam)
			onProbation = e.kind == "over"
			continue
		case e.endpoint == endpoint && failed:
			t.failures++
		case e.endpoint != endpoint && failed && t.failures > 0:
			t.failuresElsewhere++
		case e.endpoint != endpoint && e.kind == "ok" && t.failures > 0:
			t.successesElsewhere++
		}
		byTeam[e.team] = t
	}
	return byTeam, onProbation
}

// isOutlier reports whether calls to an endpoint fail, of teams whose calls to others succeed.
func (l eventLog) isOutlier(endpoint int) bool {
	byTeam, onProbation := l.tallies(endpoint)
	failures, successes, needed := 0, 0, 5
	if onProbation {
		needed = 1
	}
	for _, t := range byTeam {
		if t.successesElsewhere > 0 && 10*t.failuresElsewhere <= t.successesElsewhere {
			failures, successes = failures+t.failures, successes+t.successesElsewhere
		}
	}
	return failures >= needed && successes >= 5
}

// isSilent reports whether the last event, a success of a call that began at a time, shows that
// another endpoint does not answer its team.
func (l eventLog) isSilent(endpoint int, began time.Time) bool {
	success := l[len(l)-1]
	var unanswered time.Time
	for _, e := range l {
		switch {
		case e.endpoint != endpoint:
		case slices.Contains([]string{"ok", "failed", "answer", "new", "over"}, e.kind), e.kind == "canceled" && e.team == success.team:
			unanswered = time.Time{}
		case e.kind == "begin" && e.team == success.team && unanswered.IsZero():
			unanswered = e.at
		}
	}
	return !unanswered.IsZero() && began.After(unanswered) && success.at.Sub(unanswered) >= time.Second
}

// An outlierTest compares outliers with the model.
type outlierTest struct {
	outliers

	log     eventLog
	now     time.Time
	all     []*Endpoint
	bad     []int    // endpoints whose calls most often fail
	badData []string // teams whose calls most often fail everywhere
	open    []event  // the "begin" of each call in flight

	until  map[int]time.Time // of the ejections
	inARow map[int]int
	last   map[int]time.Time // the end of the latest ejection
	silent map[int]bool
}

var teams = []string{"w", "x", "y", "z"}

func (o *outlierTest) add(endpoint int, kind string, team string) {
	o.log = append(o.log, event{endpoint, kind, team, o.now})
	if slices.Contains([]string{"ok", "failed", "answer"}, kind) {
		o.silent[endpoint] = false
	}
}

func (o *outlierTest) isMember(endpoint int) bool { return slices.Contains(o.members, o.all[endpoint]) }

func (o *outlierTest) isEjected(endpoint int) bool { return !o.until[endpoint].IsZero() }

func (o *outlierTest) begin(t *rapid.T) {
	var inUse []int
	for i := range o.all {
		if o.isMember(i) && !o.isEjected(i) && !o.silent[i] {
			inUse = append(inUse, i)
		}
	}
	if len(inUse) == 0 {
		return
	}
	i, team := rapid.SampledFrom(inUse).Draw(t, "endpoint"), rapid.SampledFrom(teams).Draw(t, "team")
	o.all[i].began(team, o.now)
	o.add(i, "begin", team)
	o.open = append(o.open, o.log[len(o.log)-1])
}

func (o *outlierTest) end(t *rapid.T) {
	if len(o.open) == 0 {
		return
	}
	n := rapid.IntRange(0, len(o.open)-1).Draw(t, "call")
	call := o.open[n]
	o.open = slices.Delete(o.open, n, n+1)
	i, e := call.endpoint, o.all[call.endpoint]
	bad := slices.Contains(o.bad, i) || slices.Contains(o.badData, call.team)
	if rapid.IntRange(0, 29).Draw(t, "dice") == 29 {
		bad = !bad
	}
	kind := "ok"
	if bad {
		kind = rapid.SampledFrom([]string{"failed", "failed", "failed", "timed out", "canceled"}).Draw(t, "kind")
	}
	if kind == "ok" || kind == "failed" {
		e.answered(o.now)
	}
	switch {
	case kind == "canceled":
		e.endedWithoutResult(call.team)
		o.add(i, kind, call.team)
	case kind == "ok":
		silent, ejected := o.succeeded(e, call.team, call.at, o.now)
		o.add(i, kind, call.team)
		o.mustBeSilent(t, call, silent)
		o.mustBeEjected(t, call.team, ejected, func(other int) bool { return other != i })
	case o.isEjected(i) || !o.isMember(i): // the call began before
		o.mustBeEjected(t, call.team, o.failed(e, call.team, o.now), func(int) bool { return false })
		if kind == "failed" {
			o.add(i, "answer", "")
		}
	default:
		ejected := o.failed(e, call.team, o.now)
		o.add(i, kind, call.team)
		o.mustBeEjected(t, call.team, ejected, func(other int) bool { return other == i })
	}
}

// mustBeSilent compares the endpoints that become silent by a success with the model.
func (o *outlierTest) mustBeSilent(t *rapid.T, success event, got []*Endpoint) {
	for i, e := range o.all {
		want := i != success.endpoint && o.isMember(i) && !o.silent[i] && o.log.isSilent(i, success.at)
		if slices.Contains(got, e) != want {
			t.Fatalf("endpoint %d becomes silent: %t, want %t, after %v", i, !want, want, o.log)
		}
		o.silent[i] = o.silent[i] || want
	}
}

// mustBeEjected compares the endpoints that are ejected by the latest event, a result for a team,
// with the model.
func (o *outlierTest) mustBeEjected(t *rapid.T, team string, got []*Endpoint, concerned func(endpoint int) bool) {
	for _, e := range o.members {
		i := slices.Index(o.all, e)
		byTeam, _ := o.log.tallies(i)
		want := concerned(i) && !o.isEjected(i) && byTeam[team].failures > 0 && o.log.isOutlier(i) && 2*(len(o.until)+1) <= len(o.members)
		if slices.Contains(got, e) != want {
			t.Fatalf("endpoint %d is ejected: %t, want %t, after %v", i, !want, want, o.log)
		}
		if !want {
			continue
		}
		length := func() time.Duration { return min(time.Duration(o.inARow[i])*o.unit, 5*time.Minute) }
		if o.now.Sub(o.last[i]) >= length() {
			o.inARow[i] = 0
		}
		o.inARow[i]++
		if o.until[i] = o.now.Add(length()); !e.ejectedUntil.Equal(o.until[i]) {
			t.Fatalf("ejected for %v, want %v", e.ejectedUntil.Sub(o.now), length())
		}
		o.add(i, "new", "")
	}
}

// ended compares the ends of ejections with the model.
func (o *outlierTest) ended(t *rapid.T, kind string, endpoints []*Endpoint) {
	for _, e := range endpoints {
		i := slices.Index(o.all, e)
		if !o.isEjected(i) {
			t.Fatal("an endpoint that was not ejected is in use again")
		}
		delete(o.until, i)
		o.last[i] = o.now
		o.add(i, kind, "")
	}
}

func (o *outlierTest) change(t *rapid.T) {
	before := o.members
	after := slices.DeleteFunc(slices.Clone(o.all), func(*Endpoint) bool { return rapid.IntRange(0, 9).Draw(t, "leaves") == 9 })
	removed, readmitted := o.setMembers(after, o.now)
	for _, e := range before {
		i := slices.Index(o.all, e)
		if slices.Contains(after, e) {
			continue
		}
		if slices.Contains(removed, e) != o.isEjected(i) {
			t.Fatalf("endpoint %d left, and is removed: %t", i, slices.Contains(removed, e))
		}
		if o.isEjected(i) {
			o.ended(t, "new", []*Endpoint{e})
		}
		o.add(i, "new", "")
		o.silent[i] = false
	}
	for n, e := range readmitted {
		if !slices.Contains(after, e) || 2*(len(o.until)-n) <= len(after) {
			t.Fatal("an ejection ended early without need")
		}
	}
	o.ended(t, "new", readmitted)
}

func (o *outlierTest) check(t *rapid.T) {
	for i, e := range o.all {
		if at := o.until[i]; !at.Equal(e.ejectedUntil) || o.isEjected(i) && (!at.After(o.now) || !o.isMember(i)) {
			t.Fatalf("endpoint %d is ejected until %v, want %v", i, e.ejectedUntil, at)
		}
		if (e.silence == suspected) != o.silent[i] {
			t.Fatalf("endpoint %d is silent: %v", i, e.silence)
		}
	}
	if 2*len(o.until) > len(o.members) {
		t.Fatalf("%d of %d are ejected", len(o.until), len(o.members))
	}
}

func TestOutliersAreEjectedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &outlierTest{
			outliers: outliers{unit: 10 * time.Second}, now: time.Unix(1_800_000_000, 0), all: make([]*Endpoint, rapid.IntRange(1, 5).Draw(t, "endpoints")),
			until: make(map[int]time.Time), inARow: make(map[int]int), last: make(map[int]time.Time), silent: make(map[int]bool),
		}
		for i := range o.all {
			o.all[i] = new(Endpoint)
		}
		o.setMembers(slices.Clone(o.all), o.now)
		o.bad = rapid.SliceOfNDistinct(rapid.IntRange(0, len(o.all)-1), 0, len(o.all), rapid.ID).Draw(t, "bad")
		o.badData = rapid.SliceOfNDistinct(rapid.SampledFrom(teams), 0, 2, rapid.ID).Draw(t, "bad data")
		pass := func(d time.Duration) {
			o.now = o.now.Add(d)
			o.ended(t, "over", o.expire(o.now))
		}
		t.Repeat(map[string]func(*rapid.T){
			"calls": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "calls") {
					pass(time.Millisecond)
					if rapid.Bool().Draw(t, "begin") {
						o.begin(t)
					} else {
						o.end(t)
					}
				}
			},
			"wait": func(t *rapid.T) {
				pass(rapid.SampledFrom([]time.Duration{time.Second, 9 * time.Second, 10 * time.Second, time.Minute}).Draw(t, "wait"))
			},
			"probe": func(t *rapid.T) {
				pass(time.Millisecond)
				i := rapid.IntRange(0, len(o.all)-1).Draw(t, "probed")
				if was := o.all[i].answered(o.now); (was == suspected) != o.silent[i] {
					t.Fatalf("endpoint %d was silent: %v", i, was)
				}
				o.add(i, "answer", "")
			},
			"change": func(t *rapid.T) {
				pass(time.Millisecond)
				o.change(t)
			},
			"": o.check,
		})
	})
}
