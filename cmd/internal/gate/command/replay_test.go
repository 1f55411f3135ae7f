package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

// stricter is a configuration that denies some of the requests that recorded writes.
const stricter = good + `rate_limit:
  limits: [{requests: 3, per: 1s}]
  teams:
    20000000-0000-4000-8000-000000000001: {limits: [{requests: 2, per: 1m}, {requests: 1, per: 1h, shadow: true}], expires: 2026-01-02T12:30:00Z}
`

// recorded writes a record: two tokens with five admitted requests each at 12:00 and at 12:45, and a third token with a denied request.
func recorded(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "demand.jsonl")
	r, err := demand.NewRecorder(demand.Options{
		Path: path, Sample: 1, MaxBytes: demand.MinBytes, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	testkit.Must(t, err)
	day, err := ratelimit.NewPolicy([]ratelimit.Limit{{Name: "day", Requests: 1, Per: 24 * time.Hour}})
	testkit.Must(t, err)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{noon, noon.Add(45 * time.Minute)} {
		for i := range 5 {
			for token, team := range map[string]string{"00000000-0000-4000-8000-000000000001": "20000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000002": "20000000-0000-4000-8000-000000000001"} {
				r.Decided("", token, team, day, &ratelimit.Decision{At: at.Add(time.Duration(i) * time.Millisecond), Allowed: true, Local: i == 4})
			}
		}
	}
	r.Decided("", "00000000-0000-4000-8000-000000000003", "20000000-0000-4000-8000-000000000002", day, &ratelimit.Decision{At: noon.Add(time.Hour), RetryAfter: time.Minute})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.Must(t, r.Run(ended))
	testkit.Must(t, r.Close())
	return path
}

func TestReplayPrintsTheEffectOfEachLimit(t *testing.T) {
	got := opsgate(t, nil, "replay", "--config", write(t, stricter), "--demand", recorded(t))
	if got.code != 0 || !strings.HasPrefix(got.out, "9 of 21 requests would be newly denied (42.86%), of 2 tokens; 1 would be newly admitted (4.762%)\n") {
		t.Errorf("got %+v", got)
	}
	mustHaveLines(t, got.out,
		"record 2026-01-02T12:00:00Z to 2026-01-02T13:00:00Z (1h)",
		"of 21 requests of 3 tokens, a sample of 100%",
		"before 20 1 4.762% 1m 1m",
		"rate_limit.limits second 3 per 1s 0 6 6 FILE:11",
		"rate_limit.limits day no longer there 1 0 0 FILE:11",
		"rate_limit.teams.20000000-0000-4000-8000-000000000001 minute 2 per 1m 0 3 3 FILE:13",
		"rate_limit.teams.20000000-0000-4000-8000-000000000001 hour (shadow) 1 per 1h 0 1 0 FILE:13",
		"00000000-0000-4000-8000-000000000002 20000000-0000-4000-8000-000000000001 10 0 5 5 1m0.995s 59.998s 2026-01-02T12:00:00Z rate_limit.limits",
	)
	testkit.Contains(t, got.out, "the usage before 2026-01-02T12:00:00Z is not recorded: of the 10 requests before", "4 requests were decided by a gateway without the shared store")
}

// words returns a line without its alignment and without the directory of a file.
func words(line string) string {
	list := strings.Fields(line)
	for i, word := range list {
		if _, number, ok := strings.Cut(word, "opsgate.yaml:"); ok {
			list[i] = "FILE:" + number
		}
	}
	return strings.Join(list, " ")
}

func TestReplayFailsIfABoundIsExceeded(t *testing.T) {
	config, record := write(t, stricter), recorded(t)
	const all, tokens = "42.86%", "2 tokens"
	for _, test := range []struct {
		bounds []string
		errors []string
	}{
		{nil, nil},
		{[]string{"--max-denied=42.9%", "--max-newly-denied=9", "--max-newly-denied-tokens=2"}, nil},
		{[]string{"--max-denied=42.8%"}, []string{"--max-denied=42.8% is exceeded: " + all}},
		{[]string{"--max-newly-denied=8"}, []string{"--max-newly-denied=8 is exceeded: 9 requests"}},
		{[]string{"--max-newly-denied=0"}, []string{"--max-newly-denied=0 is exceeded: 9 requests"}},
		{[]string{"--max-newly-denied=1%"}, []string{"--max-newly-denied=1% is exceeded: 9 requests would be newly denied (" + all}},
		{[]string{"--max-newly-denied=50%"}, nil},
		{[]string{"--max-newly-denied-tokens=1", "--max-denied=0%"}, []string{"=1 is exceeded: " + tokens, "--max-denied=0% is exceeded"}},
	} {
		got := opsgate(t, nil, append([]string{"replay", "--config", config, "--demand", record}, test.bounds...)...)
		if got.code != min(1, len(test.errors)) || strings.Count(got.err, "is exceeded") != len(test.errors) {
			t.Errorf("%v: got %d %s", test.bounds, got.code, got.err)
		}
		testkit.Contains(t, got.err, test.errors...)
	}
}

func TestReplayPrintsJSON(t *testing.T) {
	config, record := write(t, stricter), recorded(t)
	arguments := []string{"replay", "--config", config, "--demand", record, "--json", "--top=1", "--max-newly-denied=0"}
	got, again := opsgate(t, nil, arguments...), opsgate(t, nil, arguments...)
	if got != again {
		t.Errorf("got %+v, then %+v", got, again)
	}
	var result struct {
		Version string `json:"config_version"`
		Record  struct {
			Requests, Tokens, Local, Uncertain int
			Sample                             float64 `json:"sample_most"`
		}
		After  struct{ Admitted, Denied int }
		Newly  int `json:"newly_denied"`
		Limits []json.RawMessage
		Tokens []struct {
			ID string `json:"token_id"`
		}
		Warnings     []string
		BoundsPassed []string `json:"bounds_passed"`
	}
	testkit.Must(t, json.Unmarshal([]byte(got.out), &result))
	if len(result.Version) != 12 || result.Record.Requests != 21 || result.Record.Tokens != 3 || result.Record.Local != 4 || result.Record.Sample != 1 ||
		result.After.Denied != 9 || result.After.Admitted != 12 || result.Newly != 9 || len(result.Limits) != 4 || len(result.Tokens) != 1 ||
		len(result.Warnings) != 2 || len(result.BoundsPassed) != 1 || got.code != 1 {
		t.Errorf("got %d %s", got.code, got.out)
	}
}

func TestReplayOfSeveralGatewaysIsByTime(t *testing.T) {
	got := opsgate(t, nil, "replay", "--config", write(t, stricter), "--demand", recorded(t), "--demand", recorded(t))
	if !strings.Contains(got.out, "of 42 requests") { // each of the two tokens asks ten times at once, twice
		t.Errorf("got %+v", got)
	}
}

func TestReportsOfDemandAreRefused(t *testing.T) {
	config, record, empty, bad := write(t, stricter), recorded(t), recordOf(t, `{"dropped":1}`), recordOf(t, `{"at":7}`)
	for _, test := range []struct {
		arguments string
		code      int
		err       string
	}{
		{"replay", 2, `required flag(s) "demand" not set`},
		{"replay --demand=" + record + ".x", 1, "open a record of demand: open " + record + ".x: no such file"},
		{"replay --demand=" + bad, 1, bad + ":3: "},
		{"replay --demand=" + empty, 1, "has no requests"},
		{"replay --demand=" + record + " --config=" + write(t, good+"listn: 1\n"), 1, "listn: is not a key"},
		{"replay --max-denied=5 --demand=" + record, 2, `for "--max-denied" flag: must be 0% to 100%, not "5"`},
		{"replay --max-denied=NaN% --demand=" + record, 2, `for "--max-denied" flag: must be 0% to 100%`},
		{"replay --max-newly-denied=101% --demand=" + record, 2, `for "--max-newly-denied" flag: must be 0% to 100%`},
		{"replay --max-newly-denied=many --demand=" + record, 2, "must be a number of requests, or 0% to 100%"},
		{"replay --max-newly-denied-tokens=-1 --demand=" + record, 2, "must be a number of tokens, 0 or more"},
		{"replay --top=-1 --demand=" + record, 2, "must be 0 or more"},
		{"audit", 2, `required flag(s) "demand" not set`},
		{"audit --demand=" + empty, 1, "has no requests"},
		{"audit --demand=" + empty + ".x", 1, "no such file"},
		{"audit --top=-1 --demand=" + empty, 2, "must be 0 or more"},
		{"suggest", 2, `required flag(s) "demand" not set`},
		{"suggest --demand=" + empty, 1, "has no requests"},
		{"suggest --top=-1 --demand=" + empty, 2, "must be 0 or more"},
		{"suggest --deny-at-most=2 --demand=" + empty, 2, "must be 0% to 100%"},
		{"suggest --per=1s,1s --demand=" + empty, 2, "has the same length 1s"},
		{"suggest --per=1ns --demand=" + empty, 2, "per must be"},
		{"usage --demand=" + empty, 1, "has no requests"},
		{"usage --by=plan --demand=" + record, 2, `--by must be team, token or operation, not "plan"`},
		{"usage --since=yesterday --demand=" + record, 2, "--since: must be a time"},
		{"usage --until=-1h --demand=" + record, 2, "--until: must be a time"},
		{"usage --csv --json --demand=" + record, 2, "[csv json]"},
		{"usage --since=2026-02-01 --demand=" + record, 1, "has no requests in this time"},
		{"usage --since=1h --demand=" + record, 1, "has no requests in this time"},
		{"usage --demand=/no/record", 1, "no such file"},
	} {
		arguments := strings.Fields(test.arguments)
		got := opsgate(t, nil, slices.Insert(arguments, 1, "--config="+config)...)
		if got.code != test.code || !strings.Contains(got.err, test.err) || got.out != "" {
			t.Errorf("%s: got %+v", test.arguments, got)
		}
	}
}

func TestReplayPrintsWarningsOfTheConfiguration(t *testing.T) {
	got := opsgate(t, nil, "replay", "--config", write(t, strings.Replace(stricter, "2026-01-02T12:30", "2020-01-02T12:30", 1)), "--demand", recorded(t))
	if !strings.Contains(got.err, "warning: ") || !strings.Contains(got.err, fmt.Sprintf("rate_limit.teams.%s.expires", "20000000-0000-4000-8000-000000000001")) {
		t.Errorf("got %+v", got)
	}
}
