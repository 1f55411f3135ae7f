package rehearsal_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/dev/rehearsal"
	"opsgate/cmd/internal/test/testkit"
)

// start is when the first request of each script arrives.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at returns a request that arrives some milliseconds after the start and is answered 10 ms later.
func at(millis int, line string, change ...func(*rehearsal.Entry)) rehearsal.Entry {
	method, target, _ := strings.Cut(line, " ")
	path, page, _ := strings.Cut(target, "?")
	arrived := start.Add(time.Duration(millis) * time.Millisecond)
	e := rehearsal.Entry{
		Token: "full", Method: method, Path: path, Page: page, RequestID: fmt.Sprint("r", millis), Status: 200,
		Arrived: arrived, Answered: arrived.Add(10 * time.Millisecond),
	}
	if method == "POST" {
		e.Body = "body"
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func status(code int) func(*rehearsal.Entry) { return func(e *rehearsal.Entry) { e.Status = code } }

func told(code, seconds int) func(*rehearsal.Entry) {
	return func(e *rehearsal.Entry) { e.Status, e.RetryAfter = code, time.Duration(seconds)*time.Second }
}

func cut(f rehearsal.Fault) func(*rehearsal.Entry) {
	return func(e *rehearsal.Entry) { e.Status, e.Fault = 0, f }
}

func key(k string) func(*rehearsal.Entry) { return func(e *rehearsal.Entry) { e.Key = k } }

func body(b string) func(*rehearsal.Entry) { return func(e *rehearsal.Entry) { e.Body = b } }

func by(token string) func(*rehearsal.Entry) { return func(e *rehearsal.Entry) { e.Token = token } }

func fault(f rehearsal.Fault) func(*rehearsal.Entry) {
	return func(e *rehearsal.Entry) { e.Fault = f }
}

func more(e *rehearsal.Entry)      { e.More = true }
func replayed(e *rehearsal.Entry)  { e.Replayed = true }
func abandoned(e *rehearsal.Entry) { e.Abandoned, e.Fault = true, rehearsal.Slow }

const (
	before = rehearsal.CutBefore
	inside = rehearsal.CutInside
)

// A script is what a client sent, and the items that it passes and fails; all others are not exercised.
type script struct {
	name     string
	requests []rehearsal.Entry
	passed   string
	failed   string // with the text of the finding after a colon
}

var scripts = []script{
	{name: "no request"},
	{"undisturbed", []rehearsal.Entry{at(0, "GET /v1/me"), at(100, "POST /v1/incidents", key("a"))}, "", ""},

	{"waits after 429", []rehearsal.Entry{at(0, "GET /v1/me", told(429, 1)), at(1010, "GET /v1/me")}, "waits repeats pauses", ""},
	{"its timer is early", []rehearsal.Entry{at(0, "GET /v1/me", told(429, 1)), at(992, "GET /v1/me")}, "waits repeats pauses", ""},
	{
		"does not wait after 429",
		[]rehearsal.Entry{at(0, "GET /v1/me", told(429, 1)), at(700, "GET /v1/me")},
		"repeats pauses", "waits:sent 690 ms after a 429 with retry-after: 1",
	},
	{
		"hammers after 429",
		[]rehearsal.Entry{at(0, "GET /v1/me", told(429, 1)), at(11, "GET /v1/me", told(429, 1)), at(1100, "GET /v1/me")},
		"repeats pauses", "waits:sent 1 ms",
	},
	{
		"sends another request while it should wait",
		[]rehearsal.Entry{at(0, "GET /v1/me", told(429, 2)), at(900, "GET /v1/servers"), at(2100, "GET /v1/me")},
		"repeats pauses", "waits:sent 890 ms",
	},
	{
		"another request was in flight",
		[]rehearsal.Entry{at(0, "GET /v1/me", told(429, 1)), at(5, "GET /v1/monitors"), at(100, "GET /v1/servers"), at(1100, "GET /v1/me")},
		"waits repeats pauses", "",
	},
	{
		"requests that are denied together get different waits",
		[]rehearsal.Entry{
			at(0, "GET /v1/me", told(429, 1)), at(5, "GET /v1/monitors", told(429, 2)), at(1015, "GET /v1/me"), at(2020, "GET /v1/monitors"),
		},
		"waits repeats pauses", "",
	},
	{
		"another token need not wait",
		[]rehearsal.Entry{at(0, "GET /v1/me", told(429, 1)), at(500, "GET /v1/me", by("read")), at(1100, "GET /v1/me")},
		"waits repeats pauses", "",
	},
	{
		"other requests need not wait after 503",
		[]rehearsal.Entry{at(0, "GET /v1/me", told(503, 2)), at(900, "GET /v1/servers"), at(2100, "GET /v1/me")},
		"waits repeats pauses", "",
	},
	{
		"does not wait after 503",
		[]rehearsal.Entry{at(0, "GET /v1/me", told(503, 2)), at(900, "GET /v1/servers"), at(1100, "GET /v1/me")},
		"repeats pauses", "waits:sent 1090 ms after a 503 with retry-after: 2",
	},
	{
		"the answer with retry-after was cut",
		[]rehearsal.Entry{at(0, "GET /v1/me", told(429, 1), cut(inside)), at(100, "GET /v1/me")},
		"repeats pauses", "",
	},

	{"gives up after a cut", []rehearsal.Entry{at(0, "GET /v1/me", cut(before))}, "", "repeats:not sent again after its answer was cut"},
	{"gives up after 503", []rehearsal.Entry{at(0, "GET /v1/me", told(503, 1)), at(2000, "GET /v1/servers")}, "waits", "repeats:status 503"},
	{
		"starts a walk over after a cut",
		[]rehearsal.Entry{at(0, "GET /v1/audit?cursor=a", cut(inside)), at(300, "GET /v1/audit")}, "repeats", "",
	},
	{"disconnects itself", []rehearsal.Entry{at(0, "GET /v1/me", cut(before), func(e *rehearsal.Entry) { e.Abandoned = true })}, "", ""},

	{
		"repeats a write with its key",
		[]rehearsal.Entry{at(0, "POST /v1/incidents", key("a"), cut(before)), at(300, "POST /v1/incidents", key("a"), replayed)},
		"repeats same-key pauses replays", "",
	},
	{
		"repeats a write with another key",
		[]rehearsal.Entry{at(0, "POST /v1/incidents", key("a"), cut(before)), at(300, "POST /v1/incidents", key("b"))},
		"repeats", "same-key:sent again with another Idempotency-Key after its answer was cut",
	},
	{
		"repeats a write with another body",
		[]rehearsal.Entry{at(0, "POST /v1/incidents", key("a"), told(503, 1)), at(1300, "POST /v1/incidents", key("a"), body("b"), status(422))},
		"waits repeats pauses", "same-key:with the same Idempotency-Key and another body after status 503",
	},
	{
		"two writes alike at the same time",
		[]rehearsal.Entry{
			at(0, "POST /v1/incidents", key("a"), cut(before)), at(5, "POST /v1/incidents", key("b")), at(300, "POST /v1/incidents", key("a"), replayed),
		},
		"repeats same-key pauses replays", "",
	},
	{
		"writes without a key",
		[]rehearsal.Entry{at(0, "POST /v1/incidents"), at(300, "POST /v1/incidents", cut(before)), at(600, "POST /v1/incidents")},
		"repeats pauses", "same-key:a write without an Idempotency-Key, and it was executed",
	},
	{"a refused write needs no key", []rehearsal.Entry{at(0, "POST /v1/incidents", status(422))}, "", ""},
	{
		"sends a write again with its key after a replay",
		[]rehearsal.Entry{at(0, "POST /v1/incidents", key("a"), replayed), at(300, "POST /v1/incidents", key("a"), replayed)},
		"replays", "",
	},
	{
		"writes again after a replay",
		[]rehearsal.Entry{at(0, "POST /v1/incidents", key("a"), replayed), at(300, "POST /v1/incidents", key("b"))},
		"", "replays:the same write with another",
	},

	{
		"its pauses grow",
		[]rehearsal.Entry{at(0, "GET /v1/me", cut(inside)), at(200, "GET /v1/me", cut(inside)), at(600, "GET /v1/me")},
		"repeats pauses", "",
	},
	{
		"its first repeat follows at once",
		[]rehearsal.Entry{at(0, "GET /v1/me", cut(inside)), at(11, "GET /v1/me", cut(inside)), at(200, "GET /v1/me")},
		"repeats pauses", "",
	},
	{
		"its library repeats too",
		[]rehearsal.Entry{
			at(0, "GET /v1/me", cut(inside)), at(200, "GET /v1/me", cut(before)), at(211, "GET /v1/me", cut(inside)), at(600, "GET /v1/me"),
		},
		"repeats pauses", "",
	},
	{
		"repeats without a pause",
		[]rehearsal.Entry{at(0, "GET /v1/me", cut(inside)), at(11, "GET /v1/me", cut(inside)), at(22, "GET /v1/me")},
		"repeats", "pauses:try 3 followed after 1 ms; expected at least 100 ms",
	},
	{
		"its pauses shrink",
		[]rehearsal.Entry{at(0, "GET /v1/me", cut(inside)), at(1010, "GET /v1/me", cut(inside)), at(1220, "GET /v1/me")},
		"repeats", "pauses:try 3 followed after 200 ms, and the try before after 1000 ms; expected a growing pause",
	},
	{
		"sends a request four times in parallel",
		[]rehearsal.Entry{
			at(0, "GET /v1/me", cut(inside)), at(1, "GET /v1/me", cut(inside)), at(2, "GET /v1/me", cut(inside)), at(3, "GET /v1/me", cut(inside)),
			at(300, "GET /v1/me"),
		},
		"repeats pauses", "",
	},
	{"never gives up", triesEverySecond(7), "waits repeats", "pauses:try 7 of the same request"},
	{"gives up after six tries", triesEverySecond(6), "waits repeats pauses", ""},
	{
		"repeats what is refused",
		[]rehearsal.Entry{
			at(0, "GET /v1/servers/x", status(404)), at(100, "GET /v1/servers/x", status(404)), at(200, "GET /v1/servers/x", status(404)),
		},
		"", "pauses:the same request 3 times in a row, each with status 404",
	},
	{
		"asks again later for what is refused",
		[]rehearsal.Entry{
			at(0, "GET /v1/servers/x", status(404)), at(1, "GET /v1/me"), at(2, "GET /v1/servers/x", status(404)), at(3, "GET /v1/servers/x", status(404)),
		},
		"", "",
	},

	{"reads all pages", []rehearsal.Entry{at(0, "GET /v1/audit", more), at(9, "GET /v1/audit?cursor=a")}, "pages", ""},
	{"stops at the first page", []rehearsal.Entry{at(0, "GET /v1/audit", more), at(9, "GET /v1/me")}, "", "pages:the list has more pages"},
	{
		"reads another list to its end",
		[]rehearsal.Entry{at(0, "GET /v1/audit", more), at(9, "GET /v1/audit", func(e *rehearsal.Entry) { e.Query = "action=x" })},
		"", "pages:",
	},
	{
		"starts over after an ignored cursor",
		[]rehearsal.Entry{
			at(0, "GET /v1/audit", more), at(9, "GET /v1/audit?cursor=a", more, fault(rehearsal.IgnoredCursor)), at(20, "GET /v1/audit?cursor=a"),
		},
		"pages restarts", "",
	},
	{
		"stops after an ignored cursor",
		[]rehearsal.Entry{
			at(0, "GET /v1/audit", more), at(5, "GET /v1/audit?cursor=a"), at(9, "GET /v1/audit?cursor=a", more, fault(rehearsal.IgnoredCursor)),
		},
		"pages", "restarts:the first page with cursor-status: ignored",
	},

	{"goes on after a new field", []rehearsal.Entry{at(0, "GET /v1/me", fault(rehearsal.NewField)), at(9, "GET /v1/servers")}, "new-fields", ""},
	{"goes on after a new value", []rehearsal.Entry{at(0, "GET /v1/me", fault(rehearsal.NewValue)), at(9, "GET /v1/servers")}, "new-values", ""},
	{"stops at a new field", []rehearsal.Entry{at(0, "GET /v1/me"), at(9, "GET /v1/me", fault(rehearsal.NewField))}, "", "new-fields:no other request followed"},
	{
		"repeats at a new value",
		[]rehearsal.Entry{at(0, "GET /v1/me", fault(rehearsal.NewValue)), at(9, "GET /v1/me", fault(rehearsal.NewValue)), at(20, "GET /v1/me")},
		"", "new-values:no other request followed an answer with a new value",
	},
	{"awaits a slow answer", []rehearsal.Entry{at(0, "GET /v1/me", fault(rehearsal.Slow))}, "patience", ""},
	{"does not await a slow answer", []rehearsal.Entry{at(0, "GET /v1/me", abandoned)}, "", "patience:the client closed the connection after 10 ms"},
}

// triesEverySecond returns tries of one request; only the last succeeds.
func triesEverySecond(n int) (tries []rehearsal.Entry) {
	for i := range n - 1 {
		tries = append(tries, at(1100*i, "GET /v1/me", told(429, 1)))
	}
	return append(tries, at(1100*n, "GET /v1/me"))
}

func TestEvaluate(t *testing.T) {
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			want := make(map[string]rehearsal.Result)
			for name := range strings.FieldsSeq(s.passed) {
				want[name] = rehearsal.Passed
			}
			failed, text, _ := strings.Cut(s.failed, ":")
			if failed != "" {
				want[failed] = rehearsal.Failed
			}
			got := make(map[string]rehearsal.Result)
			for _, item := range rehearsal.Evaluate(s.requests).Items {
				if item.Result != rehearsal.NotExercised {
					got[item.Name] = item.Result
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
	for _, item := range rehearsal.Evaluate(nil).Items {
		if !slices.Contains(passed, item.Name) || !slices.Contains(failed, item.Name) {
			t.Errorf("%s is not passed and failed", item.Name)
		}
	}
}

func TestPrint(t *testing.T) {
	s := rehearsal.Evaluate([]rehearsal.Entry{
		at(0, "GET /v1/me", told(429, 1)), at(700, "GET /v1/me", fault(rehearsal.NewField)), at(800, "GET /v1/servers"),
	})
	s.Seed, s.Requests, s.Disturbed = 7, 3, 2
	var text strings.Builder
	testkit.Must(t, s.Print(&text))
	for _, want := range []string{
		"\nRehearsal with seed 7: 3 requests, 2 of them disturbed.\n",
		"\nfailed         waits       1 of 1 case\n" +
			"    03:04:05.700Z  GET /v1/me  token full, request r700: sent 690 ms after a 429 with retry-after: 1\n    Expected: after retry-after",
		"\n    Advice: Wait retry-after seconds",
		"\npassed         new-fields  1 case\n",
		"\nnot exercised  patience    a slow answer is awaited\n",
		"\nVerdict: failed (3 passed, 1 failed, 6 not exercised)\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("it lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(text.String())
	}
}
