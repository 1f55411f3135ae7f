package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

// recordOf writes a record of a gateway that counts itself alone, with its lines.
func recordOf(t *testing.T, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "demand.jsonl")
	text := fmt.Sprintf(`{"opsgate_demand":1,"sample":1}`+"\n"+`{"gateways":{"at":"2026-01-02T11:00:00Z","id":%q,"count":1}}`+"\n",
		fmt.Sprint(time.Now().UnixNano())) + strings.Join(lines, "\n") + "\n"
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const threeASecond = `{"policy":1,"limits":[{"name":"second","requests":3,"per_ns":1000000000}]}`

// admittedAt is an admission at a number of milliseconds after noon.
func admittedAt(ms int, token, more string) string {
	return fmt.Sprintf(`{"at":"2026-01-02T12:00:%02d.%03dZ","token":%q,"team":"20000000-0000-4000-8000-000000000002","allowed":true%s}`, ms/1000, ms%1000, token, more)
}

func TestAuditPrintsTheFullestWindows(t *testing.T) {
	held := []string{threeASecond, admittedAt(0, tokenOf(1), `,"policy":1`), admittedAt(400, tokenOf(1), `,"policy":1`), admittedAt(900, tokenOf(2), `,"policy":1`)}
	above := admittedAt(500, tokenOf(1), `,"policy":1`) + "\n" + admittedAt(999, tokenOf(1), `,"policy":1`)
	outage := admittedAt(999, tokenOf(1), `,"policy":1,"local":true`)
	for _, test := range []struct {
		name  string
		lines []string
		code  int
		want  []string
	}{
		{"held", held, 0, []string{
			"proved from 2026-01-02T12:00:00.000Z to 2026-01-02T12:00:00.900Z: no window held more than its limit, of 2 tokens", "counted 3 admissions, and not 0 that were refunded",
			"00000000-0000-4000-8000-000000000001 20000000-0000-4000-8000-000000000002 2 3 per 1s 2 2026-01-02T12:00:00.000Z 2026-01-02T12:00:00.400Z held",
		}},
		{"above", append(held, above), 1, []string{
			"1 of 2 tokens were admitted more than their limits",
			"00000000-0000-4000-8000-000000000001 20000000-0000-4000-8000-000000000002 4 3 per 1s 4 2026-01-02T12:00:00.000Z 2026-01-02T12:00:00.999Z above the limit",
		}},
		{"an outage", append(held, admittedAt(500, tokenOf(1), `,"policy":1`), outage), 0, []string{
			"no violation found from 2026-01-02T12:00:00.000Z to 2026-01-02T12:00:00.999Z; not proved for 1 of 2 tokens, for the cause under RESULT",
			"00000000-0000-4000-8000-000000000001 20000000-0000-4000-8000-000000000002 4 3 per 1s 4 2026-01-02T12:00:00.000Z 2026-01-02T12:00:00.999Z not proved: outage 2026-01-02T12:00:00.999Z",
		}},
		{"events missing", append(held, `{"dropped":7,"from":"2026-01-02T12:00:01Z","to":"2026-01-02T12:00:02Z"}`), 0, []string{
			"no violation found from 2026-01-02T12:00:00.000Z to 2026-01-02T12:00:00.900Z; not proved where the record is interrupted",
			"not proved 7 events are missing, 2026-01-02T12:00:01.000Z to 2026-01-02T12:00:02.000Z: FILE",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := recordOf(t, test.lines...)
			got := opsgate(t, nil, "audit", "--demand", file)
			out := strings.ReplaceAll(got.out, file, "FILE")
			if got.code != test.code {
				t.Errorf("got %+v", got)
			}
			mustHaveLines(t, out, test.want...)
		})
	}
}

// A gateway's admissions are missing where its record has not begun or has ended.
func TestAuditProvesOnlyTheTimeOfAllRecords(t *testing.T) {
	requestsAt := func(ms ...int) string {
		lines := []string{threeASecond}
		for _, at := range ms {
			lines = append(lines, admittedAt(at, tokenOf(1), `,"policy":1`))
		}
		return recordOf(t, lines...)
	}
	for _, test := range []struct {
		name          string
		first, second string
		want          []string
	}{
		{"nearly the same time", requestsAt(0, 5000), requestsAt(900, 4100), []string{
			"proved from 2026-01-02T12:00:00.900Z to 2026-01-02T12:00:04.100Z: no window held more than its limit, of 1 tokens",
		}},
		{"one begins later and ends earlier", requestsAt(0, 9000), requestsAt(3000, 5000), []string{
			"proved from 2026-01-02T12:00:03.000Z to 2026-01-02T12:00:05.000Z: no window held more than its limit, of 1 tokens",
			"not proved the record begins only at 2026-01-02T12:00:03.000Z and ends at 2026-01-02T12:00:05.000Z: SECOND",
		}},
		{"they overlap", requestsAt(0, 5000), requestsAt(3000, 9000), []string{
			"proved from 2026-01-02T12:00:03.000Z to 2026-01-02T12:00:05.000Z: no window held more than its limit, of 1 tokens",
			"not proved the record ends at 2026-01-02T12:00:05.000Z: FIRST", "not proved the record begins only at 2026-01-02T12:00:03.000Z: SECOND",
		}},
		{"one after the other", requestsAt(0, 1000), requestsAt(3000, 4000), []string{
			"no violation found, but nothing is proved: there is no time in which all records have requests",
			"not proved the record ends at 2026-01-02T12:00:01.000Z: FIRST", "not proved the record begins only at 2026-01-02T12:00:03.000Z: SECOND",
		}},
		{"one without requests", requestsAt(0, 1000), requestsAt(), []string{
			"no violation found, but nothing is proved: there is no time in which all records have requests",
			"not proved the record has no requests: SECOND",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := opsgate(t, nil, "audit", "--demand", test.first, "--demand", test.second)
			out := lineWords(strings.NewReplacer(test.first, "FIRST", test.second, "SECOND").Replace(got.out))
			if got.code != 0 || strings.Count(out, "not proved") != len(test.want)-1 {
				t.Errorf("got %+v", got)
			}
			mustHaveLines(t, out, test.want...)
		})
	}
}

// gatewayRecord records two requests, at noon and a second later, of a gateway that counts these gateways in turn, each for a second. Without
// any, it is of an earlier version.
func gatewayRecord(t *testing.T, counted ...demand.Gateways) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "demand.jsonl")
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
		started := time.Now()
		o := demand.Options{
			Path: path, Sample: 1, MaxBytes: demand.MinBytes, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
			Clock: func() time.Time { return noon.Add(time.Since(started)) },
		}
		if len(counted) > 0 {
			o.Gateways = func() demand.Gateways { return counted[min(int(time.Since(started)/time.Second), len(counted)-1)] }
		}
		r, err := demand.NewRecorder(o)
		testkit.Must(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		p, err := ratelimit.NewPolicy([]ratelimit.Limit{{Name: "second", Requests: 3, Per: time.Second}})
		testkit.Must(t, err)
		for second := range 5 {
			r.Decided("v1ListServers", "00000000-0000-4000-8000-000000000001", "20000000-0000-4000-8000-000000000002", p, &ratelimit.Decision{At: noon.Add(time.Duration(second) * time.Second), Allowed: true})
		}
		testkit.Must(t, r.Run(ctx))
		testkit.Must(t, r.Close())
	})
	return path
}

func TestAuditNamesGatewaysWithoutARecord(t *testing.T) {
	of := func(id string, all ...string) demand.Gateways {
		return demand.Gateways{ID: id, Count: len(all), IDs: all}
	}
	a, b := gatewayRecord(t, of("a", "a", "b")), gatewayRecord(t, of("b", "a", "b"))
	joined := gatewayRecord(t, of("a", "a"), of("a", "a"), of("a", "a", "c"), of("a", "a"))
	outage := gatewayRecord(t, of("a", "a"), of("a", "a"), demand.Gateways{ID: "a"}, of("a", "a"))
	const span = "from 2026-01-02T12:00:00.000Z to 2026-01-02T12:00:04.000Z"
	for _, test := range []struct {
		name  string
		files []string
		want  []string
	}{
		{"both", []string{a, b}, []string{"proved " + span + ": no window held more than its limit, of 1 tokens"}},
		{"alone", []string{gatewayRecord(t, of("a", "a"))}, []string{"proved " + span + ": no window held more than its limit, of 1 tokens"}},
		{"one of two", []string{a}, []string{
			"no violation found " + span + "; not proved: 1 record is missing, of up to 2 gateways at a time",
			"not proved gateway b has no record, 2026-01-02T12:00:00.000Z to 2026-01-02T12:00:04.000Z",
		}},
		{"a copy in place of the other", []string{a, gatewayRecord(t, of("a", "a", "b"))}, []string{
			"no violation found " + span + "; not proved: 1 record is missing, of up to 2 gateways at a time",
		}},
		{"one that joined for a second", []string{joined}, []string{
			"not proved gateway c has no record, 2026-01-02T12:00:02.000Z to 2026-01-02T12:00:03.000Z",
		}},
		{"without ids", []string{gatewayRecord(t, demand.Gateways{ID: "a", Count: 3})}, []string{
			"not proved 2 more gateways have no record, 2026-01-02T12:00:00.000Z to 2026-01-02T12:00:04.000Z",
		}},
		{"known soon after the start", []string{gatewayRecord(t, demand.Gateways{ID: "a"}, of("a", "a"))}, []string{
			"proved " + span + ": no window held more than its limit, of 1 tokens",
		}},
		{"not known for a second", []string{outage}, []string{
			"no violation found " + span + "; not proved: it is not known how many gateways shared the limits",
			"not proved it is not known how many gateways shared the limits, 2026-01-02T12:00:02.000Z to 2026-01-02T12:00:03.000Z: FILE",
		}},
		{"an earlier version", []string{gatewayRecord(t)}, []string{
			"no violation found " + span + "; not proved: it is not known how many gateways shared the limits",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			arguments := []string{"audit"}
			for _, file := range test.files {
				arguments = append(arguments, "--demand", file)
			}
			got := opsgate(t, nil, arguments...)
			out := strings.ReplaceAll(got.out, test.files[0], "FILE")
			if isProved := strings.HasPrefix(out, "proved"); got.code != 0 || isProved != strings.HasPrefix(test.want[0], "proved") {
				t.Errorf("got %+v", got)
			}
			mustHaveLines(t, out, test.want...)
		})
	}
}

// mustHaveLines checks that an output has lines, whatever their alignment.
func mustHaveLines(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains("\n"+lineWords(out), "\n"+want+"\n") {
			t.Errorf("no line %q in\n%s", want, out)
		}
	}
}

// lineWords returns a text without its alignment.
func lineWords(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(words(line) + "\n")
	}
	return b.String()
}

func TestAuditPrintsJSON(t *testing.T) {
	lines := []string{threeASecond, `{"dropped":7}`, admittedAt(0, tokenOf(2), `,"policy":1`)}
	for i := range 4 {
		lines = append(lines, admittedAt(i, tokenOf(1), `,"policy":1`))
	}
	got := opsgate(t, nil, "audit", "--demand", recordOf(t, lines...), "--json", "--top=0")
	var result struct {
		Above         int `json:"tokens_above"`
		NotProved     int `json:"tokens_not_proved"`
		Interruptions []json.RawMessage
		Tokens        []struct {
			ID        string `json:"token_id"`
			NotProved []struct {
				Admitted int
				Cause    string
			} `json:"not_proved"`
		}
	}
	testkit.Must(t, json.Unmarshal([]byte(got.out), &result))
	if got.code != 0 || result.Above != 0 || result.NotProved != 1 || len(result.Interruptions) != 1 || len(result.Tokens) != 1 ||
		result.Tokens[0].NotProved[0].Admitted != 4 || result.Tokens[0].NotProved[0].Cause != "events missing" {
		t.Errorf("got %+v", got)
	}
}

func TestAuditOfAnEarlierRecordNeedsAConfiguration(t *testing.T) {
	record := recordOf(t, admittedAt(0, tokenOf(1), ""), admittedAt(1, tokenOf(1), ""), admittedAt(2, tokenOf(1), ""), admittedAt(3, tokenOf(1), ""))
	if got := opsgate(t, nil, "audit", "--demand", record); got.code != 1 || !strings.Contains(got.err, "give the configuration of its time as --config") {
		t.Errorf("got %+v", got)
	}
	got := opsgate(t, nil, "audit", "--demand", record, "--config", write(t, stricter))
	if got.code != 1 || !strings.Contains(got.err, "1 tokens were admitted more") || !strings.Contains(got.out, "those of --config are assumed") {
		t.Errorf("got %+v", got)
	}
}

func TestSuggestPrintsLimitsThatCheckAccepts(t *testing.T) {
	const config = `rate_limit:
  limits: [{requests: 3, per: 1s}, {name: busy, requests: 9, per: 10s}]
  classes:
    partner: {limits: [{requests: 20, per: 1m}], teams: [7c98a182-f51f-543f-b2eb-e5680506ac1b], reason: "a \"reason\": #1"}
  teams:
    20000000-0000-4000-8000-000000000002: {limits: [{requests: 50, per: 1s}, {requests: 1, per: 1h, shadow: true}], owner: sre@example.com, expires: 2099-01-02T12:30:00Z}
  tokens:
    00000000-0000-4000-8000-000000000003: {limits: [{requests: 7, per: 1m}], owner: a@example.com}
`
	record := recorded(t)
	got := opsgate(t, nil, "suggest", "--config", write(t, good+config), "--demand", record, "--deny-at-most=30%")
	if got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	testkit.Contains(t, got.out,
		"# 21 requests of 3 tokens, a sample of 100%,\n",
		"  # would have denied 2 of 10 requests (20%), from 1 of 1 tokens; in force: 3 per 1s, 9 per 10s\n", `  - {name: "busy", requests: 4, per: 10s}`,
		`#   token "00000000-0000-4000-8000-000000000002" of team "20000000-0000-4000-8000-000000000001": 2 of 10 requests denied`, "# no request recorded: these are the limits in force\n", `reason: "a \"reason\": #1"`,
		"expires: 2099-01-02T12:30:00Z",
	)
	merged := write(t, good+got.out)
	if check := opsgate(t, nil, "check", "--config", merged); check.code != 0 || check.err != "" {
		t.Errorf("got %+v of\n%s", check, got.out)
	}
	if replay := opsgate(t, nil, "replay", "--config", merged, "--demand", record, "--max-denied=30%"); replay.code != 0 {
		t.Errorf("got %+v", replay)
	}
	again := opsgate(t, nil, "suggest", "--config", write(t, good+config), "--demand", record, "--per=5s,1h", "--top=0")
	if again.code != 0 || !strings.Contains(again.out, "{name: \"5s\", requests: 5, per: 5s}") || strings.Contains(again.out, "token \"") ||
		!strings.Contains(again.out, "# warning: the record is shorter than 3 times the longest limit, 1h:") {
		t.Errorf("got %+v", again)
	}
	if check := opsgate(t, nil, "check", "--config", write(t, good+again.out)); check.code != 0 {
		t.Errorf("got %+v of\n%s", check, again.out)
	}
}
