package chaos

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// response is the result of a request, also without an HTTP response.
type response struct {
	sent       time.Time
	took       time.Duration // since it was due, which is before it was sent if all clients were busy
	token      string        // its name
	path       string
	status     int // 0 without a response
	err        error
	policy     string // RateLimit-Policy
	rateLimit  string // RateLimit
	retryAfter string // Retry-After
}

// responses are the results of a load, ordered by sent.
type responses []response

// load sends requests for a limited time, with tokens, gateways and paths in turn.
type load struct {
	gateways []*gateway
	tokens   map[string]string // by name
	paths    []string          // default: one server
	rate     float64           // requests per second, independent of responses; 0 for no limit
	clients  int
	duration time.Duration
}

const mostClients = 64

// turn is a request to be sent.
type turn struct {
	number int
	due    time.Time // zero for at once
}

// run sends the load for its duration, or until the test ends.
func (l load) run(t *testing.T) responses {
	t.Helper()
	return l.send(t.Context())
}

func (l load) send(during context.Context) responses {
	names := slices.Sorted(maps.Keys(l.tokens))
	if len(l.paths) == 0 {
		l.paths = []string{"/v1/servers/" + unknown}
	}
	ctx, cancel := context.WithTimeout(during, l.duration)
	defer cancel()
	turns := l.schedule(ctx)
	transport := &http.Transport{MaxIdleConnsPerHost: mostClients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: maxWait}
	each := make([]responses, min(l.clients, mostClients))
	var wg sync.WaitGroup
	for c := range each {
		wg.Go(func() {
			for turn := range turns {
				round, place := turn.number/len(names), turn.number%len(names)
				name, g := names[place], l.gateways[(round+place)%len(l.gateways)]
				path := l.paths[turn.number%len(l.paths)]
				a := fetch(context.WithoutCancel(during), client, g.url+path, l.tokens[name])
				a.token, a.path = name, path
				if !turn.due.IsZero() {
					a.took += a.sent.Sub(turn.due)
				}
				each[c] = append(each[c], a)
			}
		})
	}
	wg.Wait()
	all := slices.Concat(each...)
	slices.SortFunc(all, func(a, b response) int { return a.sent.Compare(b.sent) })
	return all
}

// start sends the load in the background. The returned function waits for its responses.
func (l load) start(t *testing.T) (wait func() responses) {
	t.Helper()
	done := make(chan responses, 1)
	go func() { done <- l.send(t.Context()) }()
	return func() responses { return <-done }
}

// begin sends the load in the background until the returned function is called.
func (l load) begin(t *testing.T) (end func() responses) {
	t.Helper()
	l.duration = maxWait
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan responses, 1)
	go func() { done <- l.send(ctx) }()
	return func() responses {
		stop()
		return <-done
	}
}

// schedule hands out turns when they are due.
func (l load) schedule(ctx context.Context) <-chan turn {
	turns := make(chan turn, mostClients)
	go func() {
		defer close(turns)
		begun := time.Now()
		timer := time.NewTimer(0)
		defer timer.Stop()
		for next := (turn{}); ; next.number++ {
			if l.rate > 0 {
				next.due = begun.Add(time.Duration(float64(next.number) / l.rate * float64(time.Second)))
				timer.Reset(time.Until(next.due))
				select {
				case <-timer.C:
				case <-ctx.Done():
					return
				}
			}
			select {
			case turns <- next:
			case <-ctx.Done():
				return
			}
		}
	}()
	return turns
}

func fetch(ctx context.Context, client *http.Client, url, token string) response {
	return exchange(ctx, client, http.MethodGet, url, token, "")
}

func exchange(ctx context.Context, client *http.Client, method, url, token, body string) (a response) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return response{sent: time.Now(), err: err}
	}
	request.Header.Set("Authorization", "Bearer "+token)
	a.sent = time.Now()
	response, err := client.Do(request)
	if err != nil {
		a.err = err
		return a
	}
	_, a.err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	a.took, a.status = time.Since(a.sent), response.StatusCode
	a.policy, a.rateLimit = response.Header.Get("RateLimit-Policy"), response.Header.Get("RateLimit")
	a.retryAfter = response.Header.Get("Retry-After")
	return a
}

// filter returns the responses for which keep returns true.
func (all responses) filter(keep func(response) bool) responses {
	var some responses
	for _, a := range all {
		if keep(a) {
			some = append(some, a)
		}
	}
	return some
}

// between returns the responses to requests that were sent in [from, to).
func (all responses) between(from, to time.Time) responses {
	return all.filter(func(a response) bool { return !a.sent.Before(from) && a.sent.Before(to) })
}

// to returns the responses for one token.
func (all responses) to(token string) responses {
	return all.filter(func(a response) bool { return a.token == token })
}

// isAdmitted reports whether no limit refused the request and nothing failed. 404 and 403 are expected for some paths and tokens.
func (a response) isAdmitted() bool {
	return a.err == nil && (a.status == http.StatusOK || a.status == http.StatusNotFound || a.status == http.StatusForbidden)
}

func (a response) isRefused() bool { return a.err == nil && a.status == http.StatusTooManyRequests }

func (all responses) admitted() responses { return all.filter(response.isAdmitted) }

func (all responses) refused() responses { return all.filter(response.isRefused) }

// failed returns the responses that are neither admitted nor refused by a limit.
func (all responses) failed() responses {
	return all.filter(func(a response) bool { return !a.isAdmitted() && !a.isRefused() })
}

func (all responses) percentile(share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	took := make([]time.Duration, len(all))
	for i, a := range all {
		took[i] = a.took
	}
	slices.Sort(took)
	return took[min(len(took)-1, int(share*float64(len(took))))]
}

// noneFailed checks that each request was admitted or refused by a limit.
func noneFailed(t *testing.T, row string, all responses) {
	t.Helper()
	bad := all.failed()
	report(t, row, "requests that failed", fmt.Sprintf("%d of %d", len(bad), len(all)), "none")
	if len(bad) > 0 || len(all) == 0 {
		t.Fatalf("%d of %d failed: %+v", len(bad), len(all), bad[:min(len(bad), 3)])
	}
}
