package rehearsal

import (
	"fmt"
	"time"
)

// A Result is the result of an item.
type Result string

// Results.
const (
	Passed    Result = "passed"
	Failed    Result = "failed"
	NotJudged Result = "not judged" // the requests are not enough evidence
)

// A Score is the result of a rehearsal.
type Score struct {
	Seed      uint64 `json:"seed"`
	Requests  int    `json:"requests"`
	Disturbed int    `json:"disturbed"`
	Verdict   Result `json:"verdict"` // failed if an item failed, passed if one passed
	Items     []Item `json:"items"`
}

// An Item is one thing that a correct client does.
type Item struct {
	Name     string    `json:"name"`
	Result   Result    `json:"result"`
	Missing  string    `json:"missing,omitempty"` // what it takes to judge
	Cases    int       `json:"cases"`             // how often the client met the situation
	Failures int       `json:"failedCases"`       // how many of them failed
	Expected string    `json:"expected"`
	Advice   string    `json:"advice"`
	Findings []Finding `json:"findings"` // of the first failures
}

// maxFindings is how many findings of an item are kept.
const maxFindings = 5

// A Finding is the evidence of a case that failed.
type Finding struct {
	At        time.Time `json:"at"`
	Method    string    `json:"method"`
	Path      string    `json:"path"`
	RequestID string    `json:"requestId"`
	Token     string    `json:"token"` // name
	Text      string    `json:"text"`
}

// A check counts the cases of an item, and returns those that failed.
type check func(*run) outcome

// Evaluate returns the score of the client that sent these requests, in the order in which they arrived, and reported these counts.
func Evaluate(entries []Entry, counts []Count) Score {
	s, r := Score{Verdict: NotJudged}, newRun(entries, counts)
	for _, i := range items() {
		o := i.check(r)
		item := Item{
			Name: i.name, Result: NotJudged, Cases: o.cases, Failures: len(o.findings), Expected: i.expected, Advice: i.advice,
			Findings: append([]Finding{}, o.findings[:min(len(o.findings), maxFindings)]...), // [] in JSON
		}
		switch {
		case len(o.findings) > 0:
			item.Result, s.Verdict = Failed, Failed
		case o.cases > 0:
			item.Result = Passed
			if s.Verdict == NotJudged {
				s.Verdict = Passed
			}
		default:
			item.Missing = i.missing
		}
		s.Items = append(s.Items, item)
	}
	return s
}

// Count returns how many items have the result.
func (s Score) Count(r Result) int { return len(s.names(r)) }

// names returns the names of the items with the result.
func (s Score) names(r Result) (names []string) {
	for i := range s.Items {
		if s.Items[i].Result == r {
			names = append(names, s.Items[i].Name)
		}
	}
	return names
}

type item struct {
	name                      string
	check                     check
	expected, missing, advice string
}

func items() []item {
	return []item{
		{"waits", waits, "after retry-after seconds, and not earlier, the next request", "an answer with retry-after, and a request after it",
			"Wait retry-after seconds: after a 429 with all requests of the token, after a 503 or 409 with this request."},
		{"repeats", repeats, "a request without an answer, or with 429, 503 or 409, is sent again", "a request that fails",
			"Send the request again, at least three times; one cut connection or busy moment is not an error of your program."},
		{"same-key", sameKey, "a write has an Idempotency-Key, and its repeats have the same key and body", "a write that fails, and its repeat",
			"Create one key for each write, before the first try, and send the same key and the same JSON value with each repeat."},
		{"pauses", pauses, fmt.Sprintf("at most %d tries, and a pause from the second repeat on", maxTries),
			"a second repeat after a cut answer; of a write, if the client sends requests in parallel",
			"Double the pause with each repeat, with jitter, and give up after a few tries; never repeat a 4xx as it is."},
		{"pages", pages, "lists are read until nextCursor is null, or until page times pageSize reaches total", "a list with several pages",
			"Follow nextCursor until it is null, or page until total."},
		{"restarts", restarts, "after cursor-status: ignored the list is read again from its first page to its end, and nothing is counted twice",
			"a request with a cursor, and how many items the client counted: POST " + Path + " with list=/v1/… and items=N",
			"Compare Cursor-Status with ignored: drop the pages that you have, and go on with the nextCursor of this one."},
		{"replays", replays, "an answer with idempotent-replayed is taken as the answer of the first try",
			"a write with a replayed answer, and no writes with equal bodies after other answers",
			"Treat a replayed answer as success; do not write again."},
		{"new-fields", continues(NewField), "the client goes on after an answer with a field that it does not know",
			"an answer with a new field, and another request after it or a next page", "Ignore unknown fields when you decode answers."},
		{"new-values", continues(NewValue), "the client goes on after a value that it does not know, in a set that the description calls open",
			"an answer with a new value, and another request after it or a next page",
			"Decode open sets as plain text, and treat unknown values as other."},
		{"patience", patience, "a slow answer is awaited", "a slow answer", "Set the timeout of a request to 30 seconds."},
		{"parameters", parameters, "the operation knows each query parameter", "a request with query parameters that succeeds",
			"Remove the parameters that Ignored-Parameters names, or correct their names: they select nothing."},
		{"pacing", pacing, "no 429 after an answer with r=0 in ratelimit", "an answer with r=0 in ratelimit, and a request after it",
			"If RateLimit has r=0, wait t seconds before the next request; then you get no 429."},
	}
}
