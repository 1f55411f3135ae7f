package rehearsal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"opsgate/cmd/internal/dev/rehearsal"
)

// A program is a client of the API that runs in a bubble, where time costs nothing. It is correct but for its fault. Several with a token
// are processes that share nothing else.
type program struct {
	name   string // unique
	fault  string // the rule that it breaks
	http   *http.Client
	random *rand.Rand // under mu

	mu        sync.Mutex
	notBefore time.Time // when a limit has a request again
	numWrites int
}

// errStopped is why a program with a fault ended.
var errStopped = errors.New("the program stopped")

// An answer is a complete response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (p *program) number(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.IntN(n)
}

// call sends a request until it has a final answer, at most 8 times.
func (p *program) call(method, target string, body map[string]string) (*answer, error) {
	key := ""
	if method == http.MethodPost {
		key = p.newKey()
	}
	if p.fault == "parameters" && strings.Contains(target, "?") {
		target += "&actions=incident."
	}
	pause := 100*time.Millisecond + time.Duration(p.number(300))*time.Millisecond
	for try := 1; ; try++ {
		p.awaitLimits()
		if p.fault == "same-key" && method == http.MethodPost {
			key = p.newKey()
		}
		a, err := p.send(method, target, key, p.shuffled(body))
		wait := max(100*time.Millisecond, pause/2+time.Duration(p.number(int(pause)))) // jitter
		switch {
		case err == nil && !slices.Contains([]int{408, 409, 429, 503, 504}, a.status):
			return a, p.read(a)
		case try == 8 || p.fault == "repeats" || p.fault == "patience" && errors.Is(err, context.DeadlineExceeded):
			return a, err
		case err == nil:
			seconds, _ := strconv.Atoi(a.header.Get("Retry-After"))
			wait = time.Duration(seconds) * time.Second
			if p.fault == "waits" {
				wait = 300 * time.Millisecond
			}
		case p.fault == "pauses":
			wait = 0
		}
		sleep(wait)
		pause *= 2
	}
}

func (p *program) newKey() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.numWrites++
	return fmt.Sprint(p.name, "-key-", p.numWrites)
}

// shuffled returns a JSON object with its members in any order.
func (p *program) shuffled(body map[string]string) []byte {
	if body == nil {
		return nil
	}
	var members []string
	for name, value := range body {
		members = append(members, fmt.Sprintf("%q: %q", name, value))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return []byte("{" + strings.Join(members, ",") + "}")
}

// awaitLimits waits until all limits have a request.
func (p *program) awaitLimits() {
	for {
		p.mu.Lock()
		wait := time.Until(p.notBefore)
		p.mu.Unlock()
		if wait <= 0 {
			return
		}
		sleep(wait)
	}
}

// send sends a request once.
func (p *program) send(method, target, key string, body []byte) (*answer, error) {
	timeout := 10 * time.Second
	if p.fault == "patience" {
		timeout = 250 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://rehearsal.test"+target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	response, err := p.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	p.learn(response)
	return &answer{response.StatusCode, response.Header, content}, err
}

// learn reads when the next request may be sent.
func (p *program) learn(response *http.Response) {
	seconds := 0
	if _, after, ok := strings.Cut(response.Header.Get("RateLimit"), ";r=0;t="); ok && p.fault != "pacing" {
		seconds, _ = strconv.Atoi(after)
	}
	if response.StatusCode == http.StatusTooManyRequests && p.fault != "waits" {
		after, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		seconds = max(seconds, after)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := time.Now().Add(time.Duration(seconds) * time.Second); at.After(p.notBefore) {
		p.notBefore = at
	}
}

// read decodes an answer.
func (p *program) read(a *answer) error {
	text := string(a.body)
	if p.fault == "new-fields" && strings.Contains(text, "rehearsalNewField") {
		return errStopped
	}
	if p.fault == "new-values" && strings.Contains(strings.ReplaceAll(text, "rehearsalNewField", ""), "rehearsal") {
		return errStopped
	}
	return nil
}

// walk reads a list to its end, and reports how many items it has.
func (p *program) walk(path string) error {
	items, cursor := 0, ""
	for {
		query := url.Values{"limit": {"10"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		a, err := p.call(http.MethodGet, path+"?"+query.Encode(), nil)
		if err != nil {
			return err
		}
		var page struct {
			Items      []any
			NextCursor *string
		}
		if a.status != http.StatusOK {
			return nil // given up
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			return err
		}
		if a.header.Get("Cursor-Status") == "ignored" && p.fault != "restarts" {
			items = 0
		}
		items += len(page.Items)
		if page.NextCursor == nil || p.fault == "pages" {
			break
		}
		cursor = *page.NextCursor
	}
	response, err := p.http.PostForm("http://rehearsal.test"+rehearsal.Path, url.Values{"list": {path}, "items": {strconv.Itoa(items)}})
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// write opens an incident.
func (p *program) write() error {
	body := map[string]string{"title": p.newKey(), "status": "resolved", "impact": "none", "message": "M"}
	a, err := p.call(http.MethodPost, "/v1/incidents", body)
	if err == nil && p.fault == "replays" && a.header.Get("Idempotent-Replayed") != "" {
		_, err = p.call(http.MethodPost, "/v1/incidents", body)
	}
	return err
}

// step does one thing of those that clients do.
func (p *program) step(n int) error {
	paths := []string{"/v1/me", "/v1/servers", "/v1/monitors"}
	switch {
	case n < len(paths):
		_, err := p.call(http.MethodGet, paths[n], nil)
		return err
	case n == len(paths):
		return p.write()
	case n == len(paths)+1:
		return p.walk("/v1/audit")
	}
	return p.walk("/v1/incidents")
}

const numSteps = 6
