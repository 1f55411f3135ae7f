package demand_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

const header = `{"opsgate_demand":1,"sample":0.5}` + "\n"

// line is a request at a second after noon.
func line(second int, token string) string {
	return fmt.Sprintf(`{"at":"2026-01-02T12:00:%02dZ","token":"%s","allowed":true}`+"\n", second, token)
}

// readError reads a record until it fails.
func readError(t testing.TB, path string) (events int, err error) {
	t.Helper()
	opened, err := demand.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = opened.Close() }()
	for _, err := range opened.Events() {
		if err != nil {
			return events, err
		}
		events++
	}
	return events, nil
}

func TestErrorsNameFileAndLine(t *testing.T) {
	event := func(fields string) string {
		return header + `{"at":"2026-01-02T12:00:00Z","token":"tok_1"` + fields + "}\n"
	}
	for _, test := range []struct {
		content string
		line    int
		problem string
	}{
		{line(0, "tok_1"), 1, "is not a record of demand"},
		{"\n", 1, "is not a JSON object"},
		{"garbage\n", 1, "invalid character"},
		{"[]\n", 1, "cannot unmarshal array"},
		{`{"opsgate_demand":2,"sample":1}` + "\n", 1, "has format 2; this version reads format 1"},
		{`{"opsgate_demand":1}` + "\n", 1, "has a sample of 0"},
		{`{"opsgate_demand":1,"sample":1.5}` + "\n", 1, "has a sample of 1.5"},
		{`{"opsgate_demand":1,"sample":1,"token":"tok_1"}` + "\n", 1, "has opsgate_demand and an event"},
		{header + line(0, "tok_1") + "{}\n", 3, "has no token"},
		{header + `{"ended":{"at":"2026-01-02T12:00:00Z"},"token":"tok_1"}` + "\n", 2, "has started or ended and other fields"},
		{header + `{"started":{}}` + "\n", 2, "must have a time in at of started and ended"},
		{header + "{\"at\":\n", 2, "is not a JSON object"},
		{header + strings.TrimSpace(line(0, "tok_1")) + "{}\n", 2, "has text after the JSON object"},
		{header + `{"dropped":1,"token":"tok_1"}` + "\n", 2, "has dropped and other fields"},
		{header + `{"dropped":-1}` + "\n", 2, "cannot unmarshal number -1"},
		{header + `{"token":"tok_1","allowed":true}` + "\n", 2, "must have a time"},
		{header + `{"at":"1999-01-02T12:00:00Z","token":"tok_1","allowed":true}` + "\n", 2, "must have a time between"},
		{header + `{"at":"yesterday","token":"tok_1","allowed":true}` + "\n", 2, "parsing time"},
		{event(``), 2, "must have one of"},
		{event(`,"allowed":true,"denied":"second"`), 2, "must have one of"},
		{event(`,"allowed":true,"reset":true`), 2, "must have one of"},
		{event(`,"allows":true`), 2, `unknown field "allows"`},
		{event(`,"refund_of":"2026-01-02T12:00:01Z"`), 2, "must have a refund_of"},
		{event(`,"refund_of":"1926-01-02T12:00:01Z"`), 2, "must have a refund_of"},
		{event(`,"allowed":true,"retry_after_ns":1`), 2, "has a negative retry_after_ns"},
		{event(`,"denied":"second","retry_after_ns":-1`), 2, "has a negative retry_after_ns"},
		{event(`,"reset":true,"local":true`), 2, "is not a request"},
		{event(`,"allowed":true,"sample":1`), 2, "has a sample"},
		{event(`,"reset":true,"op":"v1ListServers"`), 2, "has op but is not a request"},
		{header + `{"gateways":{"at":"2026-01-02T12:00:00Z","id":"a","count":1},"token":"tok_1"}` + "\n", 2, "has gateways and other fields"},
		{header + `{"gateways":{"id":"a","count":1}}` + "\n", 2, "must have a time between"},
		{header + `{"gateways":{"at":"2026-01-02T12:00:00Z","id":"","count":1}}` + "\n", 2, "must have ids of 1 to 64 bytes"},
		{header + `{"gateways":{"at":"2026-01-02T12:00:00Z","id":"a","count":1,"ids":["a","b"]}}` + "\n", 2, "must have a count of gateways"},
		{event(`,"allowed":true,"policy":1`), 2, "has policy 1, which no line before it has"},
		{event(`,"allowed":true,"policy":-1`), 2, "has a negative number in policy"},
		{event(`,"reset":true,"policy":1`), 2, "has a negative number in policy, or one that is not of a request"},
		{event(`,"allowed":true,"to":"2026-01-02T12:00:00Z"`), 2, "has from or to"},
		{header + `{"policy":1,"limits":[]}` + "\n", 2, "1 to 4 limits"},
		{header + `{"limits":[{"name":"second","requests":3,"per_ns":1000000000}]}` + "\n", 2, "must have the number"},
		{header + `{"policy":1,"reset":true,"limits":[{"name":"second","requests":3,"per_ns":1000000000}]}` + "\n", 2, "has limits and an event"},
		{header + `{"dropped":1,"to":"2026-01-02T12:00:00Z"}` + "\n", 2, "must have from and to"},
		{event(`,"denied":"` + strings.Repeat("x", 20_000) + `"`), 2, "is longer than 16384 bytes"},
	} {
		for _, suffix := range []string{"", ".1"} {
			p := path(t)
			appendTo(t, p+suffix, test.content)
			_, err := readError(t, p)
			if want := fmt.Sprintf("%s:%d: ", p+suffix, test.line); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%.100q: got %v, want %s%s", test.content, err, want, test.problem)
			}
		}
	}
}

func TestReadersSkipIncompleteLinesAndSort(t *testing.T) {
	for name, test := range map[string]struct {
		older, newer string
		tokens       string // in the order of events
	}{
		"the older file, then the newer": {header + line(1, "a"), header + line(2, "b"), "a b"},
		"the newer file alone":           {"", header + line(1, "a"), "a"},
		"the older file alone":           {header + line(1, "a"), "", "a"},
		"incomplete lines":               {header + line(1, "a") + `{"at":"2026`, header + line(2, "b") + `{`, "a b"},
		"an incomplete header":           {"", header[:5], ""},
		"an empty record":                {"", header, ""},
		"out of order":                   {header + line(3, "c") + line(1, "a"), header + line(2, "b") + line(2, "c") + line(5, "d"), "a b c c d"},
		"two headers":                    {"", header + line(1, "a") + header + line(2, "b"), "a b"},
		"white space around an object":   {"", header + " " + strings.TrimSpace(line(1, "a")) + " \r\n", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			p := path(t)
			for suffix, content := range map[string]string{"": test.newer, ".1": test.older} {
				if content != "" {
					appendTo(t, p+suffix, content)
				}
			}
			events, _ := read(t, p)
			var tokens []string
			for _, e := range events {
				tokens = append(tokens, e.TokenID)
			}
			if got := strings.Join(tokens, " "); got != test.tokens {
				t.Errorf("got %q, want %q", got, test.tokens)
			}
		})
	}
}

// A gateway may rotate the files while a reader opens them.
func TestRecordRotatedWhileItIsOpenedIsReadOnce(t *testing.T) {
	p := path(t)
	appendTo(t, p, header+line(1, "a"))
	testkit.Must(t, os.Link(p, p+".1"))
	if events, _ := read(t, p); len(events) != 1 {
		t.Errorf("got %+v", events)
	}
}

func TestMissingRecordIsAnError(t *testing.T) {
	good := path(t)
	appendTo(t, good, header)
	for _, twice := range []string{good, good + ".1"} {
		testkit.Must(t, os.WriteFile(good+".1", nil, 0o600))
		if _, err := demand.Open(good, twice); err == nil || !strings.Contains(err.Error(), "named twice") {
			t.Errorf("%s again: got %v", twice, err)
		}
	}
	testkit.Must(t, os.Remove(good+".1"))
	if _, err := demand.Open(good, good+".nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere: no such file") {
		t.Errorf("got %v", err)
	}
}

func TestIterationCanStopEarly(t *testing.T) {
	p := path(t)
	appendTo(t, p, header+line(1, "a")+line(2, "b"))
	opened, err := demand.Open(p)
	testkit.Must(t, err)
	defer func() { _ = opened.Close() }()
	for e, err := range opened.Events() {
		if err != nil || e.TokenID != "a" {
			t.Errorf("got %+v, %v", e, err)
		}
		break
	}
}

// Requests are spread over gateways, and each gateway records some of them late.
func TestRecordsOfSeveralGatewaysAreMergedByTime(t *testing.T) {
	dir := t.TempDir()
	file := 0
	rapid.Check(t, func(rt *rapid.T) {
		gateways := rapid.IntRange(1, 4).Draw(rt, "gateways")
		contents := slices.Repeat([]string{header}, gateways)
		var want []string
		at := noon()
		late := make([]string, gateways) // lines that each writes later
		for i := range rapid.IntRange(0, 60).Draw(rt, "requests") {
			at = at.Add(time.Duration(rapid.Int64Range(1, int64(time.Second)).Draw(rt, "pause")))
			token := fmt.Sprintf("tok_%d", i)
			want = append(want, token)
			g := rapid.IntRange(0, gateways-1).Draw(rt, "gateway")
			text := fmt.Sprintf(`{"at":%q,"token":%q,"allowed":true}`+"\n", at.Format(time.RFC3339Nano), token)
			if rapid.Bool().Draw(rt, "at once") {
				contents[g] += text + late[g]
				late[g] = ""
			} else {
				late[g] = text + late[g]
			}
		}
		var paths []string
		for g := range gateways {
			file++
			p := fmt.Sprintf("%s/%d", dir, file)
			appendTo(t, p, contents[g]+late[g])
			paths = append(paths, p)
		}
		events, _ := read(t, paths...)
		var got []string
		for _, e := range events {
			got = append(got, e.TokenID)
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("got %v, want %v", got, want)
		}
	})
}

// A replay of any bytes ends with a report, or with an error that names the line.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", header, header + line(1, "a"), header + `{"gateways":{"at":"2026-01-02T12:00:00Z","id":"a","count":2,"ids":["a","b"]}}` + "\n" + line(1, "a"), header + `{"policy":1,"limits":[{"name":"second","requests":1,"per_ns":1000000000}]}` + "\n" +
			`{"at":"2026-01-02T12:00:00Z","token":"a","allowed":true,"policy":1}` + "\n" + line(0, "a") + header + line(0, "a") +
			`{"dropped":2,"from":"2026-01-02T12:00:00Z","to":"2026-01-02T12:00:01Z"}` + "\n", header + line(2, "a") + line(1, "b") + `{"dropped":3}` + "\n" + line(1, "a")[:20], "{}\n",
		header + `{"at":"2026-01-02T12:00:00Z","token":"a","team":"b","denied":"second","retry_after_ns":5,"local":true,"cached":true}` + "\n" +
			`{"at":"2199-12-31T23:59:59Z","token":"a","refund_of":"2000-01-01T00:00:01Z"}` + "\n" + `{"at":"2026-01-02T12:00:00Z","token":"a","reset":true}` + "\n",
		header + `{"at":"2199-12-31T23:59:59Z","token":"a","allowed":true}` + "\n" + `{"at":"2000-01-01T00:00:01Z","token":"a","allowed":true}` + "\n" +
			`{"at":"2199-12-31T23:59:59.5Z","token":"a","refund_of":"2199-12-31T23:59:59Z"}` + "\n",
	} {
		f.Add([]byte(seed))
	}
	named := regexp.MustCompile(`^read the record: .+:[1-9][0-9]*: .`)
	policies := policies(f, policyOf(f, limit("second", 3, time.Second), limit("hour", 5000, time.Hour)), policyOf(f, limit("minute", 2, time.Minute)))
	f.Fuzz(func(t *testing.T, content []byte) {
		p := path(t)
		appendTo(t, p, string(content))
		opened, err := demand.Open(p)
		testkit.Must(t, err)
		defer func() { _ = opened.Close() }()
		report, err := demand.Replay(opened.Events(), func(time.Time) (*ratelimit.Policies, error) { return policies, nil })
		if err != nil {
			if !named.MatchString(err.Error()) {
				t.Fatalf("got %v", err)
			}
			return
		}
		if report.Before.Denied > report.Requests || report.After.Denied+report.NewlyAdmitted != report.Before.Denied+report.NewlyDenied {
			t.Fatalf("got %+v", report)
		}
		again, err := demand.Open(p)
		testkit.Must(t, err)
		defer func() { _ = again.Close() }()
		proof, err := demand.Audit(again.Events(), demand.AuditOptions{Assumed: always(policies), Interruptions: again.Interruptions})
		if err != nil || proof.Requests != report.Requests || proof.Admitted != report.Requests-report.Before.Denied {
			t.Fatalf("got %+v, %v", proof, err)
		}
	})
}
