package rehearsal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/dev/rehearsal"
)

const (
	token   = "ops_live_full"
	limits  = `"second";r=2;t=1`
	policy  = `"second";q=3;w=1`
	writing = `{"title": "T", "status": "resolved", "impact": "none", "message": "M"}`
)

// fakeGateway answers as the gateway does, to two tokens. A list has two pages.
func fakeGateway(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Request-Id", "gateway")
	if text, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !strings.HasPrefix(text, "ops_live_") {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"no token","code":"unauthorized"}`)
		return
	}
	h.Set("Ratelimit", limits)
	h.Set("Ratelimit-Policy", policy)
	cursor := r.URL.Query().Get("cursor")
	switch {
	case r.Method == http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, `{"id":"1","bytes":%d}`, len(body))
	case r.URL.Path == "/v1/missing":
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":"no such resource","code":"not_found"}`)
	case r.URL.Path == "/v1/me":
		h.Set("Etag", `"1"`)
		_, _ = io.WriteString(w, `{"teamId":"1","scopes":["audit:read","servers:read"]}`)
	case r.URL.Path == "/v1/monitors":
		_, _ = io.WriteString(w, `[{"id":"1","type":"http"},{"id":"2","type":"tcp"}]`)
	case r.URL.Path == "/v1/audit" && cursor != "next":
		if cursor != "" {
			h.Set("Cursor-Status", "ignored")
		}
		_, _ = io.WriteString(w, `{"items":[{"id":"1","actionType":"a.b","resourceType":"a"}],"nextCursor":"next"}`)
	case r.URL.Path == "/v1/audit":
		_, _ = io.WriteString(w, `{"items":[{"id":"2","actionType":"a.b","resourceType":"a"}],"nextCursor":null}`)
	default:
		_, _ = io.WriteString(w, `{"id":"1"}`)
	}
}

// A caller sends requests to a rehearsal in a bubble, where time costs nothing.
type caller struct {
	t       *testing.T
	h       *rehearsal.Rehearsal
	handler http.Handler
	pace    time.Duration // between logical requests
	numKeys int
	faults  []string // of all tries, in order
}

func newRehearsal(seed uint64) *rehearsal.Rehearsal {
	return rehearsal.New(rehearsal.Options{Seed: seed, Tokens: map[string]string{token: "full"}, Logger: slog.New(slog.DiscardHandler)})
}

func newCaller(t *testing.T, seed uint64) *caller {
	t.Helper()
	h := newRehearsal(seed)
	return &caller{t: t, h: h, handler: h.Wrap(http.HandlerFunc(fakeGateway)), pace: time.Second}
}

func newRequest(method, target, key string) *http.Request {
	r := httptest.NewRequest(method, target, http.NoBody)
	if method == http.MethodPost {
		r = httptest.NewRequest(method, target, strings.NewReader(writing))
		r.Header.Set("Idempotency-Key", key)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// try sends a request once, and reports whether its connection was cut.
func (c *caller) try(r *http.Request) (answer *httptest.ResponseRecorder, wasCut bool) {
	answer = httptest.NewRecorder()
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			wasCut = true
		}
	}()
	c.handler.ServeHTTP(answer, r)
	return answer, false
}

// call sends a request until it succeeds, as a correct client does, and returns the answer.
func (c *caller) call(method, target string) *httptest.ResponseRecorder {
	c.t.Helper()
	c.numKeys++
	pause := 200 * time.Millisecond
	for tries := 1; tries <= 3; tries++ {
		answer, wasCut := c.try(newRequest(method, target, strconv.Itoa(c.numKeys)))
		wait := pause
		switch {
		case wasCut && answer.Body.Len() > 0:
			c.faults = append(c.faults, "inside")
		case wasCut:
			c.faults = append(c.faults, "before")
		case answer.Code == http.StatusOK:
			c.faults = append(c.faults, c.change(answer))
			time.Sleep(c.pace)
			return answer
		default:
			c.faults = append(c.faults, strconv.Itoa(answer.Code))
			seconds, _ := strconv.Atoi(answer.Header().Get("Retry-After"))
			wait = time.Duration(seconds) * time.Second
		}
		time.Sleep(wait)
		pause *= 2
	}
	c.t.Errorf("%s %s did not succeed in three tries: %v", method, target, c.faults[len(c.faults)-3:])
	return httptest.NewRecorder()
}

// change returns how an answer differs from that of the gateway.
func (c *caller) change(a *httptest.ResponseRecorder) string {
	if !json.Valid(a.Body.Bytes()) {
		c.t.Errorf("invalid JSON: %s", a.Body)
	}
	body := a.Body.String()
	if strings.Contains(body, "rehearsal") && a.Header().Get("Etag") == `"1"` {
		c.t.Errorf("the entity tag is that of another body: %s", body)
	}
	switch {
	case strings.Contains(body, "rehearsalNewField"):
		return "field"
	case strings.Contains(body, "rehearsal"):
		return "value"
	case a.Header().Get("Cursor-Status") != "":
		return "cursor"
	case a.Header().Get("Idempotent-Replayed") != "":
		return "replay"
	}
	return ""
}

// scenario sends 40 logical requests, of which two are writes and three ask for pages of a list.
func (c *caller) scenario() {
	c.call("GET", "/v1/me")
	for i := range 8 {
		for _, path := range []string{"/v1/me", "/v1/servers", "/v1/monitors", "/v1/servers"} {
			c.call("GET", path)
		}
		if i < 2 {
			c.call("POST", "/v1/incidents")
		}
	}
	c.call("GET", "/v1/audit")
	c.call("GET", "/v1/audit?cursor=next")
	c.call("GET", "/v1/audit?cursor=next")
	c.call("GET", "/v1/servers")
	c.call("GET", "/v1/server-groups")
}

func TestEverySeedDisturbsAScenarioInAllWays(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 60
	}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			c := newCaller(t, seed)
			c.scenario()
			for _, want := range []string{"429", "503", "field", "value", "cursor"} {
				if !slices.Contains(c.faults, want) {
					t.Errorf("seed %d: no %s in %v", seed, want, c.faults)
				}
			}
			if !slices.Contains(c.faults, "before") && !slices.Contains(c.faults, "inside") {
				t.Errorf("seed %d: nothing was cut in %v", seed, c.faults)
			}
			report := httptest.NewRequest("POST", rehearsal.Path+"?list=/v1/audit&items=2", http.NoBody)
			if answer, _ := c.try(report); answer.Code != http.StatusNoContent {
				t.Fatalf("seed %d: the count is refused: %d %s", seed, answer.Code, answer.Body)
			}
			unjudged := []string{"replays", "pacing"} // a replay of a cut write is the gateway's, and limits
			for _, item := range c.h.Score().Items {
				if item.Result != rehearsal.Passed && !slices.Contains(unjudged, item.Name) {
					t.Errorf("seed %d: %s %s %+v", seed, item.Name, item.Result, item.Findings)
				}
			}
		})
	}
}

func TestFaultsDependOnTheSeedAndNotOnTime(t *testing.T) {
	run := func(seed uint64, pace time.Duration) (faults []string) {
		synctest.Test(t, func(t *testing.T) {
			c := newCaller(t, seed)
			c.pace = pace
			c.scenario()
			faults = c.faults
		})
		return faults
	}
	first := run(1, time.Second)
	if again := run(1, time.Minute); !slices.Equal(first, again) {
		t.Errorf("with one seed: %v\n%v", first, again)
	}
	if other := run(2, time.Second); slices.Equal(first, other) {
		t.Errorf("with another seed: %v", first)
	}
}

// A planned failure waits until the gateway itself does not refuse the request.
func TestRefusalsOfTheGatewayDoNotShiftThePlan(t *testing.T) {
	run := func(refuse bool) (faults []string) {
		synctest.Test(t, func(t *testing.T) {
			c := newCaller(t, 1)
			refused := make(map[string]bool)
			c.handler = c.h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if number := r.Header.Get("X-Number"); refuse && !refused[number] {
					refused[number] = true
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				fakeGateway(w, r)
			}))
			for i := range 40 {
				for range 4 {
					r := newRequest("GET", "/v1/servers/"+strconv.Itoa(i), "")
					r.Header.Set("X-Number", strconv.Itoa(i))
					answer, wasCut := c.try(r)
					switch {
					case wasCut:
						faults = append(faults, fmt.Sprint(i, "cut", answer.Body.Len()))
					case answer.Header().Get("Content-Type") == "": // the 429 above
					default:
						faults = append(faults, fmt.Sprint(i, answer.Code, c.change(answer)))
					}
					if !wasCut && answer.Code == http.StatusOK {
						break
					}
				}
			}
		})
		return faults
	}
	if calm, busy := run(false), run(true); !slices.Equal(calm, busy) {
		t.Errorf("got\n%v, without refusals\n%v", busy, calm)
	}
}

func TestScoreIsServedAsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, 9)
		c.scenario()
		_, _ = c.try(newRequest("POST", "/v1/incidents", token)) // with a token as key, and without a repeat
		answer, _ := c.try(httptest.NewRequest("GET", rehearsal.Path, http.NoBody))
		var got rehearsal.Score
		testkit.Must(t, json.Unmarshal(answer.Body.Bytes(), &got))
		if got.Seed != 9 || got.Requests < 40 || got.Disturbed < 10 || len(got.Items) != 12 {
			t.Errorf("got %s", answer.Body)
		}
		if strings.Contains(answer.Body.String(), token) {
			t.Errorf("it has a token: %s", answer.Body)
		}
	})
}

func TestInvalidCountsAreRefused(t *testing.T) {
	c := newCaller(t, 1)
	for _, query := range []string{"", "?list=/v1/audit", "?list=/v1/audit&items=x", "?list=/docs&items=1"} {
		if answer, _ := c.try(httptest.NewRequest("POST", rehearsal.Path+query, http.NoBody)); answer.Code != http.StatusBadRequest {
			t.Errorf("%q: got %d", query, answer.Code)
		}
	}
	large := httptest.NewRequest("POST", rehearsal.Path, strings.NewReader("items=1&list=/v1/"+strings.Repeat("x", 300_000)))
	large.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if answer, _ := c.try(large); answer.Code != http.StatusBadRequest {
		t.Errorf("a large body: got %d", answer.Code)
	}
}
