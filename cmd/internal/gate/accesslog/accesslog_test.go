package accesslog_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"opsgate/cmd/internal/gate/accesslog"
	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
	"opsgate/ratelimit"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

// loaded returns a configuration with these limits.
func loaded(t rapid.TB, limits string) config.Loaded {
	t.Helper()
	file, err := os.CreateTemp("", "opsgate-*.yaml")
	testkit.Must(t, err)
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString("upstreams: {fleet: &a {address: 127.0.0.1:1}, monitoring: *a, incident: *a, audit: *a, identity: *a}\nrate_limit:\n" + limits)
	testkit.Must(t, err)
	testkit.Must(t, file.Close())
	l, err := config.Load(config.Options{Path: file.Name()})
	testkit.Must(t, err)
	return l
}

// ids are those of tokens and teams in a configuration.
func tokenOf(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
func teamOf(n int) string  { return fmt.Sprintf("20000000-0000-4000-8000-%012d", n) }

// A line is an access line.
type line struct {
	At       time.Time `json:"time"` // when the request arrived; the line has the time of the answer
	Msg      string    `json:"msg"`
	Latency  int64     `json:"latency_us"`
	Route    string    `json:"route"`
	Status   int       `json:"status"`
	Cause    string    `json:"cause,omitempty"`
	Team     string    `json:"team_id"`
	Token    string    `json:"token_id"`
	Class    string    `json:"class,omitempty"`
	Limit    string    `json:"limit_class,omitempty"`
	Refunded bool      `json:"refunded,omitempty"`
	Local    bool      `json:"local,omitempty"`
}

// request returns the line of an admitted request, answered after a millisecond.
func request(token, team string, at time.Time) line {
	return line{At: at, Msg: "request", Latency: 1000, Route: "v1ListServers", Status: 200, Team: team, Token: token, Class: "default"}
}

func (l line) denied(limit string) line {
	l.Status, l.Cause = 429, "limit:"+limit
	return l
}

// burst returns the lines of n requests, a microsecond apart.
func burst(token, team string, at time.Time, n int) (lines []line) {
	for i := range n {
		lines = append(lines, request(token, team, at.Add(time.Duration(i)*time.Microsecond)))
	}
	return lines
}

func text(lines ...line) string {
	var b strings.Builder
	for _, l := range lines {
		l.At = l.At.Add(time.Duration(l.Latency) * time.Microsecond)
		_ = json.NewEncoder(&b).Encode(l) // to a Builder, which does not fail
	}
	return b.String()
}

func read(t rapid.TB, log string) *accesslog.Log {
	t.Helper()
	l, err := accesslog.Read([]string{"-"}, strings.NewReader(log))
	testkit.Must(t, err)
	return l
}

func replayed(t rapid.TB, log, limits string) *accesslog.Report {
	t.Helper()
	r, err := read(t, log).Replay(loaded(t, limits), now())
	testkit.Must(t, err)
	return r
}

func TestLogsOfAllFormsAreRead(t *testing.T) {
	prefixed := "gateway-1  | " + text(request("t1", "a", noon().Add(time.Second)))
	packed := new(bytes.Buffer)
	zip := gzip.NewWriter(packed)
	_, _ = zip.Write([]byte(text(request("t1", "a", noon()), request("t2", "b", noon().Add(2*time.Second)))))
	testkit.Must(t, zip.Close())
	dir := t.TempDir()
	plain, zipped := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log.gz")
	testkit.Must(t, os.WriteFile(plain, []byte(prefixed+
		"Started opsgate.\n\n"+`{"time":"2026-01-02T12:00:00Z","level":"INFO","msg":"serving"}`+"\n"+
		`{"time":"2026-01-02T12:00:00Z","msg":"request","status":401,"cause":"token:missing"}`+"\n"+
		`{"time":"2026-01-02T12:00:00Z","msg":"request","status":503,"cause":"unavailable:limiter","team_id":"a","token_id":"t1"}`+"\n"+
		`{"msg":"`+strings.Repeat("x", 3<<20)+`"}`+"\n"+
		`{"time":"1999-01-02T12:00:00Z","msg":"request","status":200,"token_id":"t1","class":"default"}`+"\n"+
		`{"time":"2026-01-02T12:00:00Z","msg":"request","status":"200","token_id":"t1","class":"default"}`+"\n"+
		`{"time":"2026-01-02T12:00:00Z","msg":"requ`), 0o600))
	testkit.Must(t, os.WriteFile(zipped, packed.Bytes(), 0o600))
	got, err := accesslog.Read([]string{plain, zipped, "-"}, strings.NewReader(text(request("t1", "a", noon().Add(-time.Second)))))
	testkit.Must(t, err)
	if got.Requests != 4 || got.Others != 3 || got.Skipped != 5 || !got.From.Equal(noon().Add(-time.Second)) || !got.To.Equal(noon().Add(2*time.Second)) {
		t.Errorf("got %+v", got.Summary)
	}
}

func TestLogsThatLackRequestsAreRefused(t *testing.T) {
	good, marked := text(request("t1", "a", noon())), func(mark string) string {
		return strings.Replace(text(request("t1", "a", noon())), "{", "{"+mark+",", 1)
	}
	unmarked := request("t1", "a", noon())
	unmarked.Class = ""
	for _, test := range []struct{ log, want string }{
		{good + marked(`"sampled":true`), "-:2: the log has only a sample of the successful requests (log.access_sample)"},
		{good + marked(`"failures_only":true`), "-:2: the log has only failures (log.access, log.level)"},
		{good + text(unmarked), "-:2: the line has no class: an earlier version wrote it, whose log may be sampled"},
		{"time=2026 level=INFO msg=request\n", "no access line of a token was found in 1 lines; 1 are not JSON (log.format: json writes it)"},
		{"\x1f\x8bx", "-: "},
	} {
		if _, err := accesslog.Read([]string{"-"}, strings.NewReader(test.log)); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v", test.want, err)
		}
	}
	if _, err := accesslog.Read([]string{"/no/log"}, nil); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

const (
	suppressed = `{"time":"2026-01-02T12:00:01Z","msg":"log lines suppressed","kind":"rate_limited","lines":9,` +
		`"causes":{"default/second":3,"partner/hour":5,"throttled:fleet":1}}` + "\n" +
		`{"time":"2026-01-02T12:00:01Z","msg":"log lines suppressed","kind":"failed","lines":28,` +
		`"causes":{"timeout:fleet":4,"refund":7,"timeout:identity":8,"unavailable:limiter":9}}` + "\n" +
		`{"time":"2026-01-02T12:00:01Z","msg":"log lines suppressed","kind":"unauthenticated","lines":7,"causes":{"token:unknown":7}}` + "\n"
	dropped = `{"time":"2026-01-02T12:00:01Z","msg":"log lines were dropped because the log was not read","lines":6}` + "\n"
)

func TestRequestsWithoutALineAreAddedUp(t *testing.T) {
	got := read(t, suppressed+text(request("t1", "a", noon()))+dropped)
	if got.Missing != 3+5+1+4+6 || got.Requests != 1 || !strings.HasPrefix(got.Warnings[0], "19 requests have no line: ") {
		t.Errorf("got %+v", got.Summary)
	}
	if r := replayed(t, suppressed+text(request("t1", "a", noon())), "  store: memory\n"); !r.LowerBounds {
		t.Errorf("got %+v", r)
	}
}

func TestUsageIsCountedByEachKey(t *testing.T) {
	failed := request("t1", "a", noon())
	failed.Status, failed.Refunded, failed.Route, failed.Local = 503, true, "v1GetServer", true
	log := text(request("t1", "a", noon()), failed, request("t1", "a", noon()).denied("second"), request("t3", "a", noon()).denied("hour"), request("t2", "b", noon()))
	type row struct {
		ID                                   string
		Requests, Admitted, Refunded, Denied uint64
		By                                   string
	}
	for by, want := range map[string][]row{
		"team":      {{"a  ", 4, 2, 1, 2, "map[hour:1 second:1]"}, {"b  ", 1, 1, 0, 0, "map[]"}},
		"token":     {{"a t1 ", 3, 2, 1, 1, "map[second:1]"}, {"a t3 ", 1, 0, 0, 1, "map[hour:1]"}, {"b t2 ", 1, 1, 0, 0, "map[]"}},
		"operation": {{"  v1ListServers", 4, 2, 0, 2, "map[hour:1 second:1]"}, {"  v1GetServer", 1, 1, 1, 0, "map[]"}},
	} {
		got, err := accesslog.Count([]string{"-"}, strings.NewReader(log), by)
		testkit.Must(t, err)
		var rows []row
		for _, r := range got.Rows {
			rows = append(rows, row{
				r.TeamID + " " + r.TokenID + " " + r.Operation, r.Requests, r.Admitted, r.Refunded, r.Denied, fmt.Sprint(r.DeniedBy),
			})
		}
		if diff := gocmp.Diff(want, rows); diff != "" || got.Requests != 5 || got.Local != 1 {
			t.Errorf("by %s: %s, %+v", by, diff, got.Summary)
		}
	}
}

// drawLimits draws limits of a configuration: exact ones, larger ones and limits in shadow.
func drawLimits(t *rapid.T) string {
	limits := fmt.Sprintf("{requests: %d, per: 1s}", rapid.IntRange(1, 5).Draw(t, "a second"))
	if rapid.Bool().Draw(t, "has minutes") {
		limits += fmt.Sprintf(", {requests: %d, per: 1m}", rapid.IntRange(10, 200).Draw(t, "a minute"))
	}
	if rapid.Bool().Draw(t, "has shadow") {
		limits += fmt.Sprintf(", {requests: %d, per: 10s, shadow: true}", rapid.IntRange(1, 100).Draw(t, "on trial"))
	}
	return "[" + limits + "]"
}

// A replay of what a store decided makes its decisions again, if lines are in any order, and with
// requests that were given back after their answers.
func TestReplayUnderTheSameLimitsDecidesTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limits := fmt.Sprintf("  limits: %s\n  teams: {%s: {limits: %s}}\n", drawLimits(rt), teamOf(1), drawLimits(rt))
		assigned, err := config.NewPolicies(loaded(rt, limits), noon(), nil)
		testkit.Must(rt, err)
		now := time.UnixMicro(1 << 50) // as a replay starts
		store := ratelimit.NewMemory(func() time.Time { return now })
		type refund struct {
			at    time.Time
			token string
			of    ratelimit.Decision
		}
		var refunds []refund
		var lines []line
		denied, at := uint64(0), noon()
		for range rapid.IntRange(1, 300).Draw(rt, "requests") {
			at = at.Add(time.Duration(rapid.Int64Range(0, 500_000).Draw(rt, "pause")) * time.Microsecond)
			for len(refunds) > 0 && !refunds[0].at.After(at) {
				now = refunds[0].at
				_ = store.Refund(t.Context(), refunds[0].token, refunds[0].of)
				refunds = refunds[1:]
			}
			n := rapid.IntRange(0, 2).Draw(rt, "token")
			l := request(tokenOf(n), teamOf(n%2), at)
			l.Latency = rapid.Int64Range(0, 2_000_000).Draw(rt, "latency")
			now = at
			d, _ := store.Decide(t.Context(), l.Token, assigned.For(l.Team, l.Token, "").Policy)
			switch {
			case !d.Allowed:
				l, denied = l.denied("second"), denied+1
			case rapid.IntRange(0, 4).Draw(rt, "fails") == 0:
				l.Status, l.Refunded = 503, true
				refunds = append(refunds, refund{at.Add(time.Duration(l.Latency) * time.Microsecond), l.Token, d})
				slices.SortStableFunc(refunds, func(a, b refund) int { return a.at.Compare(b.at) })
			}
			lines = append(lines, l)
		}
		// Gateways log requests when they are answered. Those of one token at the same time keep
		// their order.
		slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.Token, b.Token) })
		late := slices.IndexFunc(lines, func(l line) bool { return l.Token != lines[0].Token })
		if late > 0 && rapid.Bool().Draw(rt, "other order") {
			lines = slices.Concat(lines[late:], lines[:late])
		}
		got := replayed(rt, text(lines...), limits)
		if got.NewlyDenied != 0 || got.NewlyAdmitted != 0 || got.DeniedBefore != denied || got.DeniedAfter != denied {
			rt.Fatalf("%d denied of %d, got %+v", denied, len(lines), got)
		}
	})
}

func TestLinesOfSeveralGatewaysAreOrderedByTheTimeOfTheirDecision(t *testing.T) {
	lines := burst("t1", "a", noon(), 50)
	for i := range lines {
		lines[i].Latency = rand.Int64N(1_000_000)
	}
	rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	if got := replayed(t, text(lines...), "  limits: [{requests: 3, per: 1s}]\n"); got.NewlyDenied != 47 || !got.To.Equal(noon().Add(49*time.Microsecond)) {
		t.Errorf("got %+v", got)
	}
}

func TestReportComparesDecisions(t *testing.T) {
	lines := slices.Concat(
		burst(tokenOf(1), teamOf(1), noon(), 5),                  // the new limits deny two of them
		burst(tokenOf(2), teamOf(2), noon().Add(time.Second), 3), // and one of these
		[]line{
			request(tokenOf(1), teamOf(1), noon().Add(10*time.Second)).denied("hour"),
			request(tokenOf(2), teamOf(2), noon().Add(2*time.Second)).denied("hour"),
		})
	config := loaded(t, "  limits: [{requests: 3, per: 1s}, {name: trial, requests: 1, per: 1m, shadow: true}]\n"+
		"  classes: {partner: {limits: [{requests: 2, per: 1m}], teams: ["+teamOf(2)+"]}}\n")
	got, err := read(t, text(lines...)).Replay(config, now())
	testkit.Must(t, err)
	want := accesslog.Effect{DeniedBefore: 2, DeniedAfter: 4, NewlyDenied: 3, NewlyAdmitted: 1}
	if got.Effect != want || got.Tokens != 2 || got.NewlyDeniedTokens != 2 || got.Version != config.Version() || got.LowerBounds {
		t.Errorf("got %+v", got)
	}
	if w := got.Warnings; len(w) != 1 || !strings.Contains(w[0], "until 2026-01-02T12:01:00Z") {
		t.Errorf("got %q", w)
	}
	if diff := gocmp.Diff([]accesslog.LimitReport{
		{Key: "rate_limit.classes.partner", Name: "minute", Requests: 2, Per: 60, Denied: 2, NewlyDenied: 1},
		{Key: "rate_limit.limits", Name: "second", Requests: 3, Per: 1, Denied: 2, NewlyDenied: 2},
		{Key: "rate_limit.limits", Name: "trial", Requests: 1, Per: 60, Shadow: true, Denied: 3},
	}, got.Limits, gocmp.FilterPath(func(p gocmp.Path) bool { return p.Last().String() == ".Origin" }, gocmp.Ignore())); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]accesslog.TokenReport{
		{TokenID: tokenOf(1), TeamID: teamOf(1), Requests: 6, Effect: accesslog.Effect{DeniedBefore: 1, DeniedAfter: 2, NewlyDenied: 2, NewlyAdmitted: 1}, Key: "rate_limit.limits"},
		{TokenID: tokenOf(2), TeamID: teamOf(2), Requests: 4, Effect: accesslog.Effect{DeniedBefore: 1, DeniedAfter: 2, NewlyDenied: 1}, Key: "rate_limit.classes.partner"},
	}, got.Denied); diff != "" {
		t.Error(diff)
	}
}

func TestReplayOfALimitThatBlocks(t *testing.T) {
	got := replayed(t, text(burst(tokenOf(1), teamOf(1), noon(), 3)...), "  tokens: {"+tokenOf(1)+": {limits: [{requests: 9, per: 1s}, {requests: 0, per: 1m}]}}\n")
	if l := got.Limits; got.NewlyDenied != 3 || len(l) != 2 || l[0].Denied != 0 || l[1].Denied != 3 {
		t.Errorf("got %+v", got)
	}
}

// now is when the logs of tests are replayed.
func now() time.Time { return noon().Add(90 * time.Minute) }

func TestOverridesThatHaveExpiredDoNotApply(t *testing.T) {
	override := func(expires string) string {
		return "  limits: [{requests: 1, per: 1m}]\n  teams: {" + teamOf(1) + ": {limits: [{requests: 100, per: 1m}], expires: " + expires + "}}\n"
	}
	lines := append(burst(tokenOf(1), teamOf(1), noon(), 5), burst(tokenOf(1), teamOf(1), noon().Add(time.Hour), 5)...)
	lines = append(lines, burst(tokenOf(2), teamOf(1), noon(), 5)...)
	for expires, denied := range map[string]uint64{
		"2026-01-02T11:00:00Z": 12, "2026-01-02T12:30:00Z": 12, "2026-01-02T13:30:00Z": 12, "2026-01-02T14:00:00Z": 0,
	} {
		if got := replayed(t, text(lines...), override(expires)); got.NewlyDenied != denied {
			t.Errorf("expires %s: got %+v", expires, got)
		}
	}
}

func TestReplayFollowsTheClassThatIdentityNamed(t *testing.T) {
	lines := burst(tokenOf(1), teamOf(1), noon(), 5)
	for class, denied := range map[string]uint64{"": 4, "gold": 2, "unknown": 4} {
		for i := range lines {
			lines[i].Limit = class
		}
		limits := "  limits: [{requests: 1, per: 1m}]\n  classes: {gold: {limits: [{requests: 3, per: 1m}]}}\n"
		if got := replayed(t, text(lines...), limits); got.NewlyDenied != denied {
			t.Errorf("%q: got %+v", class, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(suppressed + dropped + text(request("t1", "a", noon()).denied("second"), request("t1", "a", noon()))))
	f.Add([]byte(`{"time":"2199-12-31T23:59:59Z","msg":"request","class":"x","latency_us":86400000000,"refunded":true}`))
	limits := loaded(f, "  limits: [{requests: 3, per: 1s}]\n")
	f.Fuzz(func(t *testing.T, log []byte) {
		l, err := accesslog.Read([]string{"-"}, bytes.NewReader(log))
		if err != nil {
			return
		}
		r, err := l.Replay(limits, now())
		if err != nil || r.NewlyDenied > r.Requests || r.Requests == 0 {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}
