package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A client calls the API as its description asks for, unless it is careless.
type client struct {
	t        *testing.T
	base     string
	token    string
	http     http.Client
	careless bool // it does not wait as told, has a new key for each try, and reads first pages only
	keys     int
}

// answer is a successful answer.
type answer struct {
	body    []byte
	ignored bool // the cursor was ignored
}

var errRefused = errors.New("refused")

// try sends a request once. It returns how long to wait before the next try; 0 if the answer does not say.
func (c *client) try(method, path, key, body string) (got answer, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return got, 0, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return got, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if got.body, err = io.ReadAll(response.Body); err != nil {
		return got, 0, err
	}
	got.ignored = response.Header.Get("Cursor-Status") == "ignored"
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	switch status := response.StatusCode; {
	case status < 300:
		return got, 0, nil
	case status == 409 || status == 429 || status >= 500:
		return got, time.Duration(seconds) * time.Second, fmt.Errorf("%d %s", status, got.body)
	default:
		return got, 0, fmt.Errorf("%w: %d %s", errRefused, status, got.body)
	}
}

// call sends a request until it gets a final answer.
func (c *client) call(method, path, body string) answer {
	c.t.Helper()
	key := ""
	pause := 200 * time.Millisecond
	for tries := 1; ; tries++ {
		if method == http.MethodPost && (key == "" || c.careless) {
			c.keys++
			key = fmt.Sprintf("%s-%d", c.t.Name(), c.keys)
		}
		got, wait, err := c.try(method, path, key, body)
		switch {
		case err == nil:
			return got
		case errors.Is(err, errRefused), tries == 12:
			c.t.Errorf("%s %s, try %d: %v", method, path, tries, err)
			return got
		case wait == 0:
			wait = pause
			pause *= 2
		}
		if c.careless {
			wait = 400 * time.Millisecond
		}
		timer := time.NewTimer(wait)
		<-timer.C
	}
}

// list reads a list with cursors and returns how many different items it has.
func (c *client) list(path string) int {
	seen := make(map[string]bool)
	for next := ""; ; {
		got := c.call(http.MethodGet, path+next, "")
		if got.ignored {
			clear(seen)
		}
		var page struct {
			Items []struct {
				ID string `json:"id"`
			} `json:"items"`
			NextCursor *string `json:"nextCursor"`
		}
		c.decode(got, &page)
		for _, item := range page.Items {
			seen[item.ID] = true
		}
		if page.NextCursor == nil || c.careless {
			return len(seen)
		}
		next = "&cursor=" + url.QueryEscape(*page.NextCursor)
	}
}

func (c *client) decode(a answer, v any) {
	c.t.Helper()
	if err := json.NewDecoder(bytes.NewReader(a.body)).Decode(v); err != nil {
		c.t.Errorf("%v in %s", err, a.body)
	}
}

// scenario calls all operations that lists and writes are made of, with about 40 logical requests.
func (c *client) scenario() {
	c.t.Helper()
	for range 2 {
		for _, path := range []string{
			"/v1/me", "/v1/servers", "/v1/server-groups", "/v1/monitors", "/v1/status-pages", "/v1/me", "/v1/monitors", "/v1/servers",
		} {
			c.call(http.MethodGet, path, "")
		}
	}
	for _, status := range []string{"investigating", "identified", "monitoring"} {
		var created struct {
			ID string `json:"id"`
		}
		body := fmt.Sprintf(`{"title": "Rehearsed", "status": %q, "impact": "minor", "message": "It is a test."}`, status)
		c.decode(c.call(http.MethodPost, "/v1/incidents", body), &created)
		c.call(http.MethodPost, "/v1/incidents/"+created.ID+"/updates", `{"status": "resolved", "message": "It is over."}`)
		c.call(http.MethodGet, "/v1/incidents/"+created.ID, "")
	}
	if n := c.list("/v1/incidents?limit=50"); !c.careless && n != 163 {
		c.t.Errorf("got %d incidents", n)
	}
	if n := c.list("/v1/audit?limit=100"); !c.careless && n < 300 {
		c.t.Errorf("got %d audit entries", n)
	}
	c.call(http.MethodGet, "/v1/me", "")
}

// results returns the results of the items by name.
func (s *system) results() map[string]string {
	found := make(map[string]string)
	_, text, _ := strings.Cut(s.Out.String(), "of them disturbed.\n\n")
	for _, m := range regexp.MustCompile(`(?m)^(passed|failed|not exercised) +(\S+)  `).FindAllStringSubmatch(text, -1) {
		found[m[2]] = m[1]
	}
	return found
}

func TestRehearsalPassesACorrectClient(t *testing.T) {
	t.Parallel()
	s := start(t, "--rehearse", "--seed=7")
	c := &client{t: t, base: s.BaseURL, token: s.Tokens["full"]}
	c.scenario()
	c.http.CloseIdleConnections()
	s.end(t)
	for name, result := range s.results() {
		if result != "passed" {
			t.Errorf("%s: %s", name, result)
		}
	}
	if t.Failed() || len(s.results()) != 10 {
		t.Errorf("%s", s.Out.String())
	}
}

func TestRehearsalFailsACarelessClient(t *testing.T) {
	t.Parallel()
	s := start(t, "--rehearse", "--seed=7")
	c := &client{t: t, base: s.BaseURL, token: s.Tokens["full"], careless: true}
	c.scenario()
	c.http.CloseIdleConnections()
	if code := s.Stop(); code != 1 || !strings.Contains(s.Log.String(), "the client failed ") {
		t.Errorf("exit code %d\n%s", code, s.Log.String())
	}
	for _, name := range []string{"waits", "same-key", "pages"} {
		if got := s.results()[name]; got != "failed" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if t.Failed() {
		t.Logf("%s", s.Out.String())
	}
}
