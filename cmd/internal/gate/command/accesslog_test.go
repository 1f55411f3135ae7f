package command_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"opsgate/cmd/internal/gate/command"
	"opsgate/internal/testkit"
)

// lines is an access log: two tokens with five admitted requests each at 12:00 and at 12:45, and a
// third token with a denied request.
func lines() string {
	line := func(at string, token, team int, more string) string {
		return fmt.Sprintf(`{"time":"2026-01-02T%sZ","msg":"request","route":"v1ListServers","status":200,"team_id":%q,"token_id":%q,"class":"default"%s}`+"\n",
			at, teamOf(team), tokenOf(token), more)
	}
	var all string
	for _, minute := range []string{"12:00", "12:45"} {
		for i := range 5 {
			at := fmt.Sprintf("%s:00.%03d", minute, i)
			all += line(at, 1, 2, "") + line(at, 2, 1, "")
		}
	}
	return all + line("13:00:00", 3, 2, `,"cause":"limit:day"`)
}

// stricter is a configuration that denies some of the requests in lines. Its override has expired
// since.
const stricter = good + `rate_limit:
  limits: [{requests: 3, per: 1s}]
  teams:
    20000000-0000-4000-8000-000000000001: {limits: [{requests: 2, per: 1m}, {requests: 1, per: 1h, shadow: true}], expires: 2026-01-02T12:30:00Z}
`

func piped(t *testing.T, arguments ...string) result {
	t.Helper()
	return run(t, command.Environment{In: strings.NewReader(lines())}, arguments...)
}

func TestUsageAndReplayPrintReports(t *testing.T) {
	file := write(t, stricter)
	for _, test := range []struct {
		arguments string
		code      int
		want      []string // in the text
		err       string
	}{
		{"usage", 0, []string{
			"from 2026-01-02T12:00:00Z\nto 2026-01-02T13:00:00Z\nrequests 21\nlocal 0\nmissing 0\nother lines 0\nskipped lines 0\n",
			"\nTEAM ID REQUESTS ADMITTED REFUNDED DENIED DENIED BY\n" + teamOf(2) + " 11 10 0 1 day=1\n" + teamOf(1) + " 10 10 0 0 -\n",
		}, ""},
		{"usage --by=operation -", 0, []string{"\nOPERATION REQUESTS ADMITTED REFUNDED DENIED DENIED BY\nv1ListServers 21 20 0 1 day=1\n"}, ""},
		{"replay --config=" + file, 0, []string{
			"\ntokens 3\ndenied before 1\ndenied after 8\nnewly denied 8\nnewly admitted 1\nnewly denied tokens 2\nlower bounds false\n",
			"\nKEY NAME REQUESTS PER DENIED NEWLY DENIED ORIGIN\nrate_limit.limits second 3 1s 8 8 " + file + ":11\n",
			"\n" + tokenOf(2) + " " + teamOf(1) + " 10 0 4 4 0 rate_limit.limits\n", "\nwarnings usage before the log is not known: until 2026-01-02T13:00:00Z, ",
		}, "warning: "},
		{"replay --max-newly-denied=38.1% --config=" + file, 0, nil, "warning: "},
		{"replay --max-newly-denied=38.0% --config=" + file, 1, nil, "--max-newly-denied=38.0% is exceeded: 8 of 21 requests\n"},
		{"replay --max-newly-denied=0% --config=" + file, 1, nil, "--max-newly-denied=0% is exceeded: 8 of 21 requests\n"},
		{"replay --suggest --deny-at-most=5% --config=" + file, 0, []string{
			"\nKEY LIMITS CONFIGURED REQUESTS DENIED TOKENS TOKENS DENIED\n" +
				"rate_limit.limits [{name: second, requests: 5, per: 1s}] [{name: second, requests: 3, per: 1s}] 21 0 3 0\n",
		}, "warning: "},
	} {
		got := piped(t, strings.Fields(test.arguments)...)
		if got.code != test.code || (got.err == "") != (test.err == "") || !strings.Contains(got.err, test.err) {
			t.Errorf("%s: got %+v", test.arguments, got)
		}
		testkit.Contains(t, words(got.out), test.want...)
		var report struct {
			Requests uint64
			Warnings []string
		}
		asJSON := piped(t, append(strings.Fields(test.arguments), "--json")...)
		if err := json.Unmarshal([]byte(asJSON.out), &report); err != nil || report.Requests != 21 || report.Warnings == nil {
			t.Errorf("%s --json: got %+v, %v", test.arguments, asJSON, err)
		}
	}
}

func TestReportsOnLogsAreRefused(t *testing.T) {
	sampled := write(t, strings.Replace(lines(), "{", `{"sampled":true,`, 1))
	for _, test := range []struct {
		arguments string
		code      int
		err       string
	}{
		{"usage /no/log", 1, "open /no/log: no such file"},
		{"usage " + sampled, 1, sampled + ":1: the log has only a sample of the successful requests"},
		{"replay " + sampled + " --config=" + write(t, good), 1, sampled + ":1: the log has only a sample"},
		{"usage --by=plan", 2, `"--by" flag: must be team, token, operation`},
		{"replay --deny-at-most=2", 2, `for "--deny-at-most" flag: must be 0% to 100%, not "2"`},
		{"replay --max-newly-denied=NaN%", 2, `for "--max-newly-denied" flag: must be 0% to 100%`},
		{"replay --config=" + write(t, good+"listn: 1\n"), 1, "listn: is not a key"},
	} {
		got := piped(t, strings.Fields(test.arguments)...)
		if got.code != test.code || !strings.Contains(got.err, test.err) || got.out != "" {
			t.Errorf("%s: got %+v", test.arguments, got)
		}
	}
}

func TestWithoutALogItIsSaidHowToGetOne(t *testing.T) {
	terminal, err := os.Open(os.DevNull) // a character device, as a terminal is
	testkit.Must(t, err)
	defer func() { _ = terminal.Close() }()
	for _, name := range []string{"usage", "replay"} {
		got := run(t, command.Environment{In: terminal}, name)
		if got.code != 2 || !strings.Contains(got.err, "there is no access log: name files, or pipe one in:\n\n  kubectl logs ") {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// The log of a gateway has a line or a number for each request. A gateway writes at most 20 lines
// of denials a second.
func TestUsageOfAGatewayCountsEachRequest(t *testing.T) {
	g := serveGateway(t, "rate_limit: {limits: [{requests: 2, per: 1h}]}\n")
	const requests = 60
	for range requests {
		g.get(t, "/v1/me")
	}
	g.stop()
	log := write(t, g.log.String())
	var report struct {
		Requests, Missing uint64
		Rows              []struct {
			Team             string `json:"team_id"`
			Admitted, Denied uint64
		}
	}
	got := opsgate(t, nil, "usage", "--json", log)
	testkit.Must(t, json.Unmarshal([]byte(got.out), &report))
	if len(report.Rows) != 1 || report.Missing == 0 || report.Requests+report.Missing != requests {
		t.Fatalf("got %+v", got)
	}
	if row := report.Rows[0]; row.Team != teamID || row.Admitted != 2 || row.Denied+report.Missing != requests-2 {
		t.Errorf("got %+v", got)
	}
	if got := opsgate(t, nil, "replay", "--config", g.config, log); got.code != 0 || !strings.Contains(words(got.out), "\nnewly denied 0\nnewly admitted 0\n") ||
		!strings.Contains(words(got.out), "\nlower bounds true\n") {
		t.Errorf("got %+v", got)
	}
	if got := opsgate(t, nil, "replay", "--suggest", "--config", g.config, log); got.code != 1 || !strings.Contains(got.err, "% of the requests of class default have no line") {
		t.Errorf("got %+v", got)
	}
}
