package rehearsal_test

import (
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/dev/rehearsal"
)

// start is when the first request of each script arrives.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// entries returns requests that are separated by semicolons. Each has the milliseconds from the start to its arrival, a method and a
// target, and facts: the status, with the seconds of retry-after behind a slash, a fault, and properties of the request. It is answered
// after 10 ms. A part "count" has a path and how many items of its list the client counted.
func entries(t *testing.T, text string) (list []rehearsal.Entry, counts []rehearsal.Count) {
	t.Helper()
	for part := range strings.SplitSeq(text, ";") {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		if words[0] == "count" {
			items, err := strconv.Atoi(words[2])
			testkit.Must(t, err)
			counts = append(counts, rehearsal.Count{Path: words[1], Items: items})
			continue
		}
		millis, err := strconv.Atoi(words[0])
		testkit.Must(t, err)
		e := rehearsal.Entry{Token: "full", Method: words[1], RequestID: "r" + words[0], Status: 200}
		e.Arrived = start.Add(time.Duration(millis) * time.Millisecond)
		e.Path, e.Page, _ = strings.Cut(words[2], "?")
		_, e.Cursor, _ = strings.Cut(e.Page, "cursor=")
		e.First = e.Cursor == ""
		e.Answered = e.Arrived.Add(10 * time.Millisecond)
		if e.Method == "POST" {
			e.Body = "body"
		}
		for _, word := range words[3:] {
			testkit.Must(t, state(&e, word))
		}
		list = append(list, e)
	}
	return list, counts
}

// state sets a fact of a request.
func state(e *rehearsal.Entry, word string) (err error) {
	faults := map[string]rehearsal.Fault{
		"before": rehearsal.CutBefore, "inside": rehearsal.CutInside, "field": rehearsal.NewField, "value": rehearsal.NewValue,
		"slow": rehearsal.Slow, "cursor": rehearsal.IgnoredCursor,
	}
	switch fact, value, _ := strings.Cut(word, "="); fact {
	case "key":
		e.Key = value
	case "body":
		e.Body = value
	case "by":
		e.Token = value
	case "query":
		e.Query = value
	case "more":
		e.More, e.NextCursor = true, value
	case "items":
		e.Items, err = strconv.Atoi(value)
	case "ignored":
		e.Ignored = value
	case "exhausted":
		e.Exhausted, err = time.ParseDuration(value)
	case "replayed":
		e.Replayed = true
	case "gone":
		e.Abandoned = true
	case "before", "inside":
		e.Status, e.Fault = 0, faults[fact]
	case "field", "value", "slow", "cursor":
		e.Fault, e.First = faults[fact], e.First || fact == "cursor"
	default:
		status, seconds, _ := strings.Cut(fact, "/")
		wait, _ := strconv.Atoi(seconds)
		e.RetryAfter = time.Duration(wait) * time.Second
		e.Status, err = strconv.Atoi(status)
	}
	return err
}

// A script is what a client sent, and the items that it passes and fails; all others are not judged.
type script struct {
	name, requests, passed string
	failed                 string // with the text of the finding after a colon
}

var scripts = []script{
	{"no request", "", "", ""},
	{"undisturbed", "0 GET /v1/me; 100 POST /v1/incidents key=a", "", ""},
	{"waits after 429", "0 GET /v1/me 429/1; 1010 GET /v1/me", "waits repeats", ""},
	{"its timer is early", "0 GET /v1/me 429/1; 992 GET /v1/me", "waits repeats", ""},
	{"does not wait after 429", "0 GET /v1/me 429/1; 700 GET /v1/me", "repeats", "waits:sent 690 ms after a 429 with retry-after: 1"},
	{"hammers after 429", "0 GET /v1/me 429/1; 11 GET /v1/me 429/1; 1100 GET /v1/me", "repeats", "waits:sent 1 ms"},
	{"gives up and sends another request early", "0 GET /v1/me 429/40; 900 GET /v1/servers", "", "waits:sent 890 ms"},
	{"another process sends another request", "0 GET /v1/me 429/2; 900 GET /v1/servers; 2100 GET /v1/me", "waits repeats", ""},
	{"another request was in flight", "0 GET /v1/me 429/1; 5 GET /v1/monitors; 100 GET /v1/servers; 1100 GET /v1/me", "waits repeats", ""},
	{"denied together", "0 GET /v1/me 429/1; 5 GET /v1/x 429/2; 1015 GET /v1/me; 2020 GET /v1/x", "waits repeats", ""},
	{"another token need not wait", "0 GET /v1/me 429/1; 500 GET /v1/me by=read; 1100 GET /v1/me", "waits repeats", ""},
	{"others need not wait after 503", "0 GET /v1/me 503/2; 900 GET /v1/servers; 2100 GET /v1/me", "waits repeats", ""},
	{"does not wait after 503", "0 GET /v1/me 503/2; 900 GET /v1/servers; 1100 GET /v1/me", "repeats", "waits:sent 1090 ms after a 503 with retry-after: 2"},
	{"retry-after was cut", "0 GET /v1/me 429/1 inside; 100 GET /v1/me", "repeats", ""},
	{"gives up after a cut", "0 GET /v1/me before", "", "repeats:not sent again after its answer was cut"},
	{"gives up after 503", "0 GET /v1/me 503/1; 2000 GET /v1/servers", "", "repeats:status 503"},
	{"starts a walk over after a cut", "0 GET /v1/audit?cursor=a inside; 300 GET /v1/audit", "repeats", ""},
	{"disconnects itself", "0 GET /v1/me before gone", "", ""},
	{"repeats a write with its key", "0 POST /v1/incidents key=a before; 300 POST /v1/incidents key=a replayed", "repeats same-key replays", ""},
	{"repeats a write with another key", "0 POST /v1/incidents key=a before; 300 POST /v1/incidents key=b",
		"repeats", "same-key:sent again with another Idempotency-Key after its answer was cut"},
	{"repeats a write with another body", "0 POST /v1/incidents key=a 503/1; 1300 POST /v1/incidents key=a body=b 422",
		"waits repeats", "same-key:with the same Idempotency-Key and another body after status 503"},
	{"two writes alike at the same time", "0 POST /v1/incidents key=a before; 5 POST /v1/incidents key=b; 300 POST /v1/incidents key=a replayed", "repeats same-key replays", ""},
	{"writes without a key", "0 POST /v1/incidents; 300 POST /v1/incidents before; 600 POST /v1/incidents",
		"repeats", "same-key:a write without an Idempotency-Key, and it was executed"},
	{"a refused write needs no key", "0 POST /v1/incidents 422", "", ""},
	{"sends a replayed write again", "0 POST /v1/incidents key=a replayed; 300 POST /v1/incidents key=a replayed", "replays", ""},
	{"writes again after a replay", "0 POST /v1/x key=a replayed; 300 POST /v1/x key=b", "", "replays:the same write with another"},
	{"its pauses grow", "0 GET /v1/me inside; 200 GET /v1/me inside; 600 GET /v1/me", "repeats pauses", ""},
	{"its first repeat follows at once", "0 GET /v1/me inside; 11 GET /v1/me inside; 200 GET /v1/me", "repeats pauses", ""},
	{"its library repeats too", "0 GET /v1/me inside; 200 GET /v1/me before; 211 GET /v1/me inside; 600 GET /v1/me", "repeats pauses", ""},
	{"repeats without a pause", "0 GET /v1/me inside; 11 GET /v1/me inside; 22 GET /v1/me", "repeats", "pauses:try 3 followed after 1 ms; expected at least 100 ms"},
	{"its pauses have full jitter", "0 GET /v1/me inside; 1010 GET /v1/me inside; 1220 GET /v1/me", "repeats pauses", ""},
	{"paces only", "0 GET /v1/me inside; 11 GET /v1/me inside exhausted=1s; 1100 GET /v1/me", "repeats", ""},
	{"four times in parallel", "0 GET /v1/me inside; 1 GET /v1/me inside; 2 GET /v1/me inside; 3 GET /v1/me inside; 300 GET /v1/me", "repeats", ""},
	{"never gives up", triesEverySecond(9), "waits repeats", "pauses:try 9 of the same request"},
	{"gives up after eight tries", triesEverySecond(8), "waits repeats", ""},
	{"repeats what is refused", "0 GET /v1/servers/x 404; 100 GET /v1/servers/x 404; 200 GET /v1/servers/x 404",
		"", "pauses:the same request 3 times in a row, each with status 404"},
	{"asks again later for what is refused", "0 GET /v1/s/x 404; 1 GET /v1/me; 2 GET /v1/s/x 404; 3 GET /v1/s/x 404", "", ""},
	{"polls what is refused", "0 GET /v1/servers/x 404; 6000 GET /v1/servers/x 404; 12000 GET /v1/servers/x 404; 18000 GET /v1/servers/x 404", "", ""},
	{"reads all pages", "0 GET /v1/audit more; 20 GET /v1/audit?cursor=a", "pages parameters", ""},
	{"stops at the first page", "0 GET /v1/audit more; 20 GET /v1/me", "", "pages:the list has more pages"},
	{"reads another list to its end", "0 GET /v1/audit more; 20 GET /v1/audit query=action=x", "parameters", "pages:"},
	{"starts over after an ignored cursor", walk, "pages parameters", ""},
	{"counts after an ignored cursor", walk + "count /v1/audit 160", "pages parameters restarts", ""},
	{"counts another list", walk + "count /v1/incidents 260", "pages parameters", ""},
	{"ignores cursor-status", walk + "count /v1/audit 260", "pages parameters", "restarts:the client counted 260 items of 160"},
	{"stops after an ignored cursor", "0 GET /v1/audit more; 15 GET /v1/audit?cursor=a; 30 GET /v1/audit?cursor=a more cursor; 45 GET /v1/me",
		"pages parameters", "restarts:the first page with cursor-status: ignored"},
	{"goes on after a new field", "0 GET /v1/me field; 20 GET /v1/servers", "new-fields", ""},
	{"goes on after a new value", "0 GET /v1/me value; 20 GET /v1/servers", "new-values", ""},
	{"its last answer has a new value", "0 GET /v1/me; 20 GET /v1/me value", "", ""},
	{"stops at a new field", "0 GET /v1/audit field more", "", "new-fields:no other request followed;pages:"},
	{"stops at a new value", "0 GET /v1/audit value more", "", "new-values:no other request followed an answer with a new value;pages:"},
	{"polls", "0 GET /v1/me; 20 GET /v1/me field; 40 GET /v1/me value; 60 GET /v1/me", "new-fields new-values", ""},
	{"repeats at a new value", "0 GET /v1/me value; 20 GET /v1/me value; 40 GET /v1/me", "", ""},
	{"gives up after four tries", "0 GET /v1/me before; 200 GET /v1/me before; 400 GET /v1/me before; 800 GET /v1/me before", "repeats pauses", ""},
	{"need not wait an hour", "0 GET /v1/me 429/3000", "", ""},
	{"the same was in flight", "0 GET /v1/me slow; 5 GET /v1/x 503/1; 8 GET /v1/x; 20 GET /v1/x; 1100 GET /v1/x", "waits repeats patience", ""},
	{"polls in parallel", "0 GET /v1/a; 5 GET /v1/x 503/1; 500 GET /v1/x; 1010 GET /v1/x", "waits repeats", ""},
	{"repeats early in parallel", "0 GET /v1/a; 5 GET /v1/x 503/1; 500 GET /v1/x; 1100 GET /v1/b", "repeats", "waits:sent 485 ms after a 503"},
	{"cut in parallel", "0 GET /v1/x inside; 5 GET /v1/y; 205 GET /v1/x inside; 250 GET /v1/x; 460 GET /v1/x", "repeats", ""},
	{"a part of it gives up", "0 GET /v1/a; 5 GET /v1/x inside; 200 GET /v1/x inside; 400 GET /v1/x; 420 GET /v1/x inside; 700 GET /v1/x inside", "repeats", ""},
	{"writes alike on purpose", "0 POST /v1/x key=a replayed; 300 POST /v1/x key=b; 600 POST /v1/x key=c", "", ""},
	{"writes alike later", "0 POST /v1/x key=a replayed; 6000 POST /v1/x key=b", "replays", ""},
	{"sends an unknown parameter", "0 GET /v1/audit query=actions=x ignored=actions", "", "parameters:the operation ignores parameters: actions"},
	{"waits for its limit", "0 GET /v1/me exhausted=1s; 1010 GET /v1/me", "pacing", ""},
	{"runs into its limit", "0 GET /v1/me exhausted=1s; 20 GET /v1/me 429/1; 1100 GET /v1/me", "waits repeats", "pacing:refused with a 429, 10 ms after an answer with r=0;t=1"},
	{"has slowed down", "0 GET /v1/x exhausted=1s; 20 GET /v1/y 429/1; 1100 GET /v1/y exhausted=1s; 2200 GET /v1/z", "waits repeats pacing", ""},
	{"runs into its limit in parallel", "0 GET /v1/me exhausted=1s; 5 GET /v1/x; 20 GET /v1/me 429/1; 1100 GET /v1/me", "waits repeats", ""},
	{"awaits a slow answer", "0 GET /v1/me slow", "patience", ""},
	{"does not await a slow answer", "0 GET /v1/me slow gone", "", "patience:the client closed the connection after 10 ms"},
}

// walk reads a list of 160 items, whose second page is ignored.
const walk = "0 GET /v1/audit more=a items=100; 20 GET /v1/audit?cursor=a more=a items=100 cursor; 40 GET /v1/audit?cursor=a items=60; "

// triesEverySecond returns tries of one request; only the last succeeds.
func triesEverySecond(n int) (tries string) {
	for i := range n - 1 {
		tries += fmt.Sprintf("%d GET /v1/me 429/1; ", 1100*i)
	}
	return tries + fmt.Sprintf("%d GET /v1/me", 1100*n)
}

func TestEvaluate(t *testing.T) {
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			want := make(map[string]rehearsal.Result)
			for name := range strings.FieldsSeq(s.passed) {
				want[name] = rehearsal.Passed
			}
			for part := range strings.SplitSeq(s.failed, ";") {
				if name, _, ok := strings.Cut(part, ":"); ok {
					want[name] = rehearsal.Failed
				}
			}
			failed, text, _ := strings.Cut(strings.Split(s.failed, ";")[0], ":")
			got := make(map[string]rehearsal.Result)
			for _, item := range rehearsal.Evaluate(entries(t, s.requests)).Items {
				if item.Result != rehearsal.NotJudged {
					got[item.Name] = item.Result
				}
				if (item.Missing != "") != (item.Result == rehearsal.NotJudged) {
					t.Errorf("%s is %s; missing: %q", item.Name, item.Result, item.Missing)
				}
				if item.Name == failed && (len(item.Findings) == 0 || !strings.Contains(item.Findings[0].Text, text)) {
					t.Errorf("the finding lacks %q: %+v", text, item.Findings)
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// Every item is failed by a script and passed by another one.
func TestScriptsCoverAllItems(t *testing.T) {
	var passed, failed []string
	for _, s := range scripts {
		passed = append(passed, strings.Fields(s.passed)...)
		name, _, _ := strings.Cut(s.failed, ":")
		failed = append(failed, name)
	}
	for _, item := range rehearsal.Evaluate(nil, nil).Items {
		if !slices.Contains(passed, item.Name) || !slices.Contains(failed, item.Name) {
			t.Errorf("%s is not passed and failed", item.Name)
		}
	}
}

func TestPrint(t *testing.T) {
	s := rehearsal.Evaluate(entries(t, "0 GET /v1/me 429/1; 700 GET /v1/me field; 800 GET /v1/servers"))
	s.Seed, s.Requests, s.Disturbed = 7, 3, 2
	var text strings.Builder
	testkit.Must(t, s.Print(&text))
	testkit.Contains(t, text.String(),
		"\nRehearsal with seed 7: 3 requests, 2 of them disturbed.\n",
		"\nfailed      waits       1 of 1 case\n"+
			"    03:04:05.700Z  GET /v1/me  token full, request r700: sent 690 ms after a 429 with retry-after: 1\n    Expected: after retry-after",
		"\n    Advice: Wait retry-after seconds",
		"\npassed      new-fields  1 case\n",
		"\nnot judged  patience    missing: a slow answer\n",
		"\nVerdict: failed (2 passed, 1 failed [waits], 9 not judged [same-key pauses pages restarts replays new-values patience parameters pacing])\n",
	)
}

func TestJUnit(t *testing.T) {
	s := rehearsal.Evaluate(entries(t, "0 GET /v1/<me> 429/1; 700 GET /v1/<me> field; 800 GET /v1/servers"))
	var text strings.Builder
	testkit.Must(t, s.JUnit(&text))
	type reason struct {
		Text string `xml:",chardata"`
	}
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Cases    []struct {
			Name    string  `xml:"name,attr"`
			Failure *reason `xml:"failure"`
			Skipped *reason `xml:"skipped"`
		} `xml:"testcase"`
	}
	testkit.Must(t, xml.Unmarshal([]byte(text.String()), &suite))
	if suite.Tests != len(s.Items) || len(suite.Cases) != len(s.Items) || suite.Failures != 1 || suite.Skipped != s.Count(rehearsal.NotJudged) {
		t.Fatalf("got %s", text.String())
	}
	for i, c := range suite.Cases {
		if c.Name != s.Items[i].Name || (c.Failure != nil) != (s.Items[i].Result == rehearsal.Failed) ||
			(c.Skipped != nil) != (s.Items[i].Result == rehearsal.NotJudged) {
			t.Errorf("%s is %s: %+v", s.Items[i].Name, s.Items[i].Result, c)
		}
	}
	if text := suite.Cases[0].Failure.Text; !strings.Contains(text, "/v1/<me>") || !strings.Contains(text, s.Items[0].Advice) {
		t.Errorf("got %s", text)
	}
}
