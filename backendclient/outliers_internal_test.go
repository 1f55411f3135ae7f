package backendclient

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A callLog is the model of outliers: it keeps every call, and finds out from all of them whether an endpoint is an outlier.
type callLog struct {
	calls []callOf
	now   time.Time
}

type callOf struct {
	endpoint int
	kind     string // "ok", "failed", "new" when the endpoint begins anew, or "over" when its ejection ends in time
}

// isOutlier reports whether the last calls of an endpoint failed while those of others succeeded.
func (h *callLog) isOutlier(endpoint int) bool {
	failures, needed, first := 0, 5, len(h.calls)
	for i, c := range slices.Backward(h.calls) {
		if c.endpoint != endpoint {
			continue
		}
		if c.kind == "over" {
			needed, first = 1, i
		}
		if c.kind != "failed" {
			break
		}
		failures, first = failures+1, i
	}
	successes, interrupted := 0, 0
	runs := make(map[int]int)
	for i, c := range h.calls {
		switch c.kind {
		case "ok":
			if i > first {
				successes, interrupted = successes+1, interrupted+runs[c.endpoint]
			}
			runs[c.endpoint] = 0
		case "failed":
			runs[c.endpoint]++
		case "new", "over":
			runs[c.endpoint] = 0
		}
	}
	return failures >= needed && successes >= 5 && interrupted*10 <= successes
}

func TestOutliersAreEjectedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const unit = 10 * time.Second
		h := &callLog{now: time.Unix(1_800_000_000, 0)}
		s := &outliers{unit: unit}
		all := make([]*endpoint, rapid.IntRange(1, 5).Draw(t, "endpoints"))
		for i := range all {
			all[i] = new(endpoint)
		}
		ready := slices.Clone(all)
		s.setMembers(ready, h.now)
		begin := func(kind string, endpoints ...*endpoint) {
			for _, e := range endpoints {
				h.calls = append(h.calls, callOf{slices.Index(all, e), kind})
			}
		}
		until := make(map[*endpoint]time.Time) // of the ejections
		inARow, last := make(map[*endpoint]int), make(map[*endpoint]time.Time)
		ended := func(kind string, endpoints ...*endpoint) {
			for _, e := range endpoints {
				if until[e].IsZero() {
					t.Fatal("an endpoint that was not ejected is in use again")
				}
				delete(until, e)
				last[e] = h.now
			}
			begin(kind, endpoints...)
		}
		bad := rapid.SliceOfNDistinct(rapid.IntRange(0, len(all)-1), 0, len(all), rapid.ID).Draw(t, "bad")
		call := func(t *rapid.T) {
			e := rapid.SampledFrom(ready).Draw(t, "endpoint")
			i := slices.Index(all, e)
			if e.isEjected() { // a call from before
				s.succeeded(e)
				if s.failed(e, h.now) {
					t.Fatal("ejected twice")
				}
				return
			}
			if surprise := rapid.IntRange(0, 29).Draw(t, "dice") == 29; surprise == slices.Contains(bad, i) {
				h.calls = append(h.calls, callOf{i, "ok"})
				s.successes.Add(1)
				s.succeeded(e)
				return
			}
			h.calls = append(h.calls, callOf{i, "failed"})
			want := h.isOutlier(i) && 2*(len(until)+1) <= len(ready)
			if got := s.failed(e, h.now); got != want {
				t.Fatalf("ejected: %t, want %t, after %v", got, want, h.calls)
			}
			if !want {
				return
			}
			length := func() time.Duration { return min(time.Duration(inARow[e])*unit, 5*time.Minute) }
			if h.now.Sub(last[e]) >= length() {
				inARow[e] = 0
			}
			inARow[e]++
			if until[e] = h.now.Add(length()); !e.ejectedUntil.Equal(until[e]) {
				t.Fatalf("ejected for %v, want %v", e.ejectedUntil.Sub(h.now), length())
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"calls": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "calls") * min(1, len(ready)) {
					call(t)
				}
			},
			"wait": func(t *rapid.T) {
				h.now = h.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 9 * time.Second, unit, time.Minute}).Draw(t, "wait"))
				ended("over", s.expire(h.now)...)
			},
			"change": func(t *rapid.T) {
				before := ready
				ready = slices.DeleteFunc(slices.Clone(all), func(*endpoint) bool { return rapid.IntRange(0, 9).Draw(t, "leaves") == 9 })
				removed, readmitted := s.setMembers(slices.Clone(ready), h.now)
				for _, e := range removed {
					if slices.Contains(ready, e) {
						t.Fatal("an endpoint that did not leave")
					}
				}
				ended("new", removed...)
				for i, e := range readmitted {
					if !slices.Contains(ready, e) || 2*(len(until)-i) <= len(ready) {
						t.Fatal("an ejection ended early without need")
					}
				}
				ended("new", readmitted...)
				begin("new", slices.DeleteFunc(slices.Clone(before), func(e *endpoint) bool { return slices.Contains(ready, e) })...)
			},
			"": func(t *rapid.T) {
				for _, e := range all {
					if at, is := until[e]; is != e.isEjected() || is && (!at.After(h.now) || !slices.Contains(ready, e)) {
						t.Fatalf("ejected until %v, want %v", e.ejectedUntil, at)
					}
				}
				if 2*len(until) > len(ready) {
					t.Fatalf("%d of %d are ejected", len(until), len(ready))
				}
			},
		})
	})
}
