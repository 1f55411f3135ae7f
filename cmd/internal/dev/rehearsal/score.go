package rehearsal

import "time"

// A Result is the result of an item.
type Result string

// Results.
const (
	Passed       Result = "passed"
	Failed       Result = "failed"
	NotExercised Result = "not exercised"
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
	Cases    int       `json:"cases"`       // how often the client met the situation
	Failures int       `json:"failedCases"` // how many of them failed
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

// find returns a finding about a request.
func find(e *Entry, text string) Finding {
	return Finding{At: e.Arrived.UTC(), Method: e.Method, Path: e.Path, RequestID: e.RequestID, Token: e.Token, Text: text}
}

// A check counts the cases of an item in the requests, which are in the order in which they arrived, and returns those that failed.
type check func([]Entry) (cases int, findings []Finding)

// Evaluate returns the score of the client that sent these requests, in the order in which they arrived.
func Evaluate(entries []Entry) Score {
	s := Score{Verdict: NotExercised}
	for _, i := range items() {
		cases, findings := i.check(entries)
		item := Item{
			Name: i.name, Result: NotExercised, Cases: cases, Failures: len(findings), Expected: i.expected, Advice: i.advice,
			Findings: append([]Finding{}, findings[:min(len(findings), maxFindings)]...), // [] in JSON
		}
		switch {
		case len(findings) > 0:
			item.Result, s.Verdict = Failed, Failed
		case cases > 0:
			item.Result = Passed
			if s.Verdict == NotExercised {
				s.Verdict = Passed
			}
		}
		s.Items = append(s.Items, item)
	}
	return s
}

// Count returns how many items have the result.
func (s Score) Count(r Result) (n int) {
	for _, item := range s.Items {
		if item.Result == r {
			n++
		}
	}
	return n
}

type item struct {
	name, expected, advice string
	check                  check
}

func items() []item {
	return []item{
		{
			"waits", "after retry-after seconds, and not earlier, the next request",
			"Wait retry-after seconds: after a 429 with all requests of the token, after a 503 or 409 with this request.", waits,
		},
		{
			"repeats", "a request without an answer, or with 429, 503 or 409, is sent again",
			"Send the request again, at least three times; one cut connection or busy moment is not an error of your program.", repeats,
		},
		{
			"same-key", "a write has an Idempotency-Key, and its repeats have the same key and body",
			"Create one key for each write, before the first try, and send the same key and the same bytes with each repeat.", sameKey,
		},
		{
			"pauses", "at most 6 tries, and a growing pause from the second repeat on",
			"Double the pause with each repeat, with jitter, and give up after a few tries; never repeat a 4xx as it is.", pauses,
		},
		{
			"pages", "lists are read until nextCursor is null, or until page times pageSize reaches total",
			"Follow nextCursor until it is null, or page until total.", pages,
		},
		{
			"restarts", "after cursor-status: ignored the list is read again from its first page to its end",
			"Compare Cursor-Status with ignored: drop the pages that you have, and go on with the nextCursor of this one.", restarts,
		},
		{
			"replays", "an answer with idempotent-replayed is taken as the answer of the first try",
			"Treat a replayed answer as success; do not write again.", replays,
		},
		{
			"new-fields", "the client goes on after an answer with a field that it does not know",
			"Ignore unknown fields when you decode answers.", continues(NewField),
		},
		{
			"new-values", "the client goes on after a value that it does not know, in a set that the description calls open",
			"Decode open sets as plain text, and treat unknown values as other.", continues(NewValue),
		},
		{
			"patience", "a slow answer is awaited",
			"Set the timeout of a request to 10 seconds or more.", patience,
		},
	}
}
