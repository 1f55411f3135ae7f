package accesslog_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/cmd/internal/gate/accesslog"
	"opsgate/internal/testkit"
)

func suggested(t rapid.TB, log, limits string, percent float64) *accesslog.Suggestion {
	t.Helper()
	s, err := read(t, log).Suggest(loaded(t, limits), now(), percent)
	testkit.Must(t, err)
	return s
}

// Of 101 or 9 tokens, one floods. The limits are those of the others. A busy customer among few
// sets them.
func TestAFlooderDoesNotRaiseTheSuggestedLimits(t *testing.T) {
	const limits = "  limits: [{requests: 7, per: 1s}]\n"
	flood := burst("flood", "a", noon(), 2000)
	for _, tokens := range []int{100, 8} {
		var calm []line
		for i := range tokens {
			calm = append(calm, burst(fmt.Sprint("t", i), "a", noon(), 3)...)
		}
		for _, percent := range []float64{0, 0.1, 5} {
			before, after := suggested(t, text(calm...), limits, percent), suggested(t, text(append(calm, flood...)...), limits, percent)
			if c := after.Classes[0]; c.Limits != before.Classes[0].Limits || c.Limits != "[{name: second, requests: 3, per: 1s}]" {
				t.Errorf("%v %% of %d: got %+v", percent, tokens, c)
			}
			if d := after.Denied; len(d) != 1 || d[0].TokenID != "flood" || d[0].DeniedAfter != 1997 {
				t.Errorf("%v %% of %d: got %+v", percent, tokens, d)
			}
		}
	}
	few := slices.Concat(burst("t1", "a", noon(), 3), burst("t2", "a", noon(), 3), burst("t3", "a", noon(), 30))
	if got := suggested(t, text(few...), limits, 0).Classes[0].Limits; got != "[{name: second, requests: 30, per: 1s}]" {
		t.Errorf("with a busy customer: %s", got)
	}
}

// drawDemand draws requests of three tokens of two teams, some of them given back if that is
// wanted.
func drawDemand(t *rapid.T, refunds bool) (lines []line) {
	at := noon()
	for range rapid.IntRange(1, 50).Draw(t, "requests") {
		at = at.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 30, 400, 2500}).Draw(t, "pause")) * time.Millisecond)
		n := rapid.IntRange(0, 2).Draw(t, "token")
		l := request(tokenOf(n), teamOf(n%2), at)
		switch rapid.IntRange(0, 5).Draw(t, "outcome") {
		case 0:
			l = l.denied("second")
		case 1:
			l.Refunded = refunds
		}
		lines = append(lines, l)
	}
	return lines
}

// numbers are the requests of limits in YAML.
var numbers = regexp.MustCompile(`requests: (\d+)`)

// smaller calls f with each list of limits of which none is larger, and one is smaller.
func smaller(limits string, f func(string)) {
	var most []int
	for _, found := range numbers.FindAllStringSubmatch(limits, -1) {
		var n int
		_, _ = fmt.Sscan(found[1], &n)
		most = append(most, n)
	}
	list := slices.Clone(most)
	var draw func(i int)
	draw = func(i int) {
		if i == len(most) {
			if i := 0; !slices.Equal(list, most) {
				f(numbers.ReplaceAllStringFunc(limits, func(string) string { i++; return fmt.Sprint("requests: ", list[i-1]) }))
			}
			return
		}
		for n := 1; n <= most[i]; n++ {
			list[i] = n
			draw(i + 1)
		}
	}
	draw(0)
}

// meanDenied returns the part of its requests that a token is denied on average, in percent, and
// the denied requests.
func meanDenied(t rapid.TB, lines []line, limits string) (percent float64, denied uint64) {
	t.Helper()
	requests := map[string]float64{}
	for _, l := range lines {
		requests[l.Token]++
	}
	for i := range lines { // so that the report has all tokens with denied requests
		lines[i].Status, lines[i].Cause = 200, ""
	}
	got := replayed(t, text(lines...), "  limits: "+limits+"\n")
	for _, r := range got.Denied {
		percent += 100 * float64(r.DeniedAfter) / requests[r.TokenID]
	}
	return percent / float64(len(requests)), got.DeniedAfter
}

// With refunds, smaller limits may deny less; the suggested ones deny no more than permitted.
func TestNoSmallerLimitsDenyAsLittleAsTheSuggestedOnes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		refunds := rapid.Bool().Draw(rt, "refunds")
		lines := drawDemand(rt, refunds)
		percent := rapid.SampledFrom([]float64{0, 3, 10, 30}).Draw(rt, "at most")
		limits := "  limits: [{requests: 9, per: 1m}, {requests: 3, per: 1s}]\n  teams: {" + teamOf(1) + ": {limits: [{requests: 1, per: 500ms}]}}\n"
		for _, c := range suggested(rt, text(lines...), limits, percent).Classes {
			own := slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return (l.Team == teamOf(1)) != strings.Contains(c.Key, "teams") })
			mean, denied := meanDenied(rt, own, c.Limits)
			if mean > percent+1e-6 || denied != c.Denied || c.Requests != uint64(len(own)) {
				rt.Fatalf("%+v denies %v %%, %d of %d", c, mean, denied, len(own))
			}
			if refunds {
				continue
			}
			smaller(c.Limits, func(limits string) {
				if mean, _ := meanDenied(rt, own, limits); mean <= percent {
					rt.Fatalf("%s denies %v %%, suggested %s", limits, mean, c.Limits)
				}
			})
		}
	})
}

func TestSuggestionHasTheClassesWithRequests(t *testing.T) {
	const limits = "  limits: [{name: short, requests: 3, per: 1s}, {name: trial, requests: 1, per: 10s, shadow: true}]\n" +
		"  classes: {partner: {limits: [{requests: 9, per: 1m}], teams: [20000000-0000-4000-8000-000000000001]}}\n"
	lines := burst("t1", "a", noon(), 90)
	for i := range 8 {
		lines = append(lines, burst(fmt.Sprint("t2", i), "a", noon().Add(time.Minute), 70)...)
	}
	got := suggested(t, text(lines...), limits, 2)
	want := accesslog.ClassSuggestion{ // 16 of 90 requests of one of nine tokens are denied: 1.98 %
		Key: "rate_limit.limits", Limits: "[{name: short, requests: 74, per: 1s}]", Configured: "[{name: short, requests: 3, per: 1s}]",
		Requests: 650, Denied: 16, Tokens: 9, DeniedTokens: 1,
	}
	if len(got.Classes) != 1 || got.Classes[0] != want || len(got.Denied) != 1 || got.Denied[0].TokenID != "t1" || got.Denied[0].Key != "rate_limit.limits" {
		t.Errorf("got %+v", got)
	}
	if w := got.Warnings; len(w) != 1 || !strings.Contains(w[0], "shorter than three times the longest limit, 1m") {
		t.Errorf("got %q", w)
	}
	if got := suggested(t, text(lines...), limits, 100).Classes[0].Limits; got != "[{name: short, requests: 1, per: 1s}]" {
		t.Errorf("got %s", got)
	}
}

func TestNoLimitsAreSuggestedIfTooManyRequestsAreMissing(t *testing.T) {
	report := func(cause string, n int) string {
		return fmt.Sprintf(`{"time":"2026-01-02T12:00:01Z","msg":"log lines suppressed","kind":"rate_limited","lines":%d,"causes":{%q:%[1]d}}`+"\n", n, cause)
	}
	partners := burst("t2", "b", noon(), 99)
	for i := range partners {
		partners[i].Class = "partner"
	}
	log := text(append(burst("t1", "a", noon(), 900), partners...)...)
	for _, test := range []struct{ missing, want string }{
		{"", ""},
		{report("default/second", 9), ""},
		{report("default/second", 10), "1.1% of the requests of class default have no line"},
		{report("partner/second", 1), ""},
		{report("partner/second", 2), "2.0% of the requests of class partner have no line"},
		{report("throttled:fleet", 10), ""},
		{report("throttled:fleet", 12), "1.2% of the requests have no line"},
	} {
		_, err := read(t, log+test.missing).Suggest(loaded(t, "  limits: [{requests: 3, per: 1s}]\n"), now(), 0)
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v", test.missing, err)
		}
	}
}

// The log has 100,000 requests of 997 tokens.
func BenchmarkLog(b *testing.B) {
	var lines []line
	for i := range 100_000 {
		lines = append(lines, request(fmt.Sprint("t", i%997), "a", noon().Add(time.Duration(i)*time.Millisecond)))
	}
	log, limits := text(lines...), loaded(b, "  limits: [{requests: 3, per: 1s}, {requests: 5000, per: 1h}]\n")
	for name, run := range map[string]func(*accesslog.Log){
		"read":    func(*accesslog.Log) {},
		"replay":  func(l *accesslog.Log) { _, _ = l.Replay(limits, now()) },
		"suggest": func(l *accesslog.Log) { _, _ = l.Suggest(limits, now(), 0.1) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				run(read(b, log))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/request")
		})
	}
}
