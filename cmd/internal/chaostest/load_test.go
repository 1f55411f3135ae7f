package chaostest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// An answer is what a client got.
type answer struct {
	sent    time.Time
	took    time.Duration
	token   string // its name
	status  int    // 0 where there was none
	err     error
	policy  string // RateLimit-Policy
	gateway int
}

// answers are those of one load, in the order in which they came.
type answers []answer

// A load is a bounded number of requests, to several gateways in turn.
type load struct {
	gateways []*gateway
	tokens   map[string]string // by their names
	rate     float64           // requests a second, sent when they are due whether or not others have been answered; 0 for as fast as can be
	clients  int
	time     time.Duration
}

const mostClients = 64

// run sends the load. It ends after its time, or with the test.
func (l load) run(t *testing.T) answers {
	t.Helper()
	names := make([]string, 0, len(l.tokens))
	for name := range l.tokens {
		names = append(names, name)
	}
	slices.Sort(names)
	ctx, cancel := context.WithTimeout(t.Context(), l.time)
	defer cancel()
	due := l.schedule(ctx)
	transport := &http.Transport{MaxIdleConnsPerHost: mostClients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	var (
		mu  sync.Mutex
		all answers
		wg  sync.WaitGroup
	)
	for range min(l.clients, mostClients) {
		wg.Go(func() {
			for i := range due {
				name := names[i/len(l.gateways)%len(names)]
				a := ask(t.Context(), client, l.gateways[i%len(l.gateways)].url, l.tokens[name])
				a.token, a.gateway = name, i%len(l.gateways)
				mu.Lock()
				all = append(all, a)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all
}

// start sends the load while the test goes on, and returns how to wait for its answers.
func (l load) start(t *testing.T) (wait func() answers) {
	t.Helper()
	done := make(chan answers, 1)
	go func() { done <- l.run(t) }()
	return func() answers { return <-done }
}

// schedule sends the numbers of requests when they are due.
func (l load) schedule(ctx context.Context) <-chan int {
	due := make(chan int, mostClients)
	go func() {
		defer close(due)
		if l.rate == 0 {
			for i := 0; ; i++ {
				select {
				case due <- i:
				case <-ctx.Done():
					return
				}
			}
		}
		begun := time.Now()
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; {
			for ; float64(i) < time.Since(begun).Seconds()*l.rate; i++ {
				select {
				case due <- i:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return due
}

func ask(ctx context.Context, client *http.Client, url, token string) answer {
	a := answer{sent: time.Now()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/servers/00000000-0000-4000-8000-000000000000", http.NoBody)
	if err != nil {
		a.err = err
		return a
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		a.err = err
		return a
	}
	_, a.err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	a.took, a.status, a.policy = time.Since(a.sent), response.StatusCode, response.Header.Get("RateLimit-Policy")
	return a
}

// of returns the answers that a function takes.
func (all answers) of(takes func(answer) bool) answers {
	var some answers
	for _, a := range all {
		if takes(a) {
			some = append(some, a)
		}
	}
	return some
}

// between returns the answers to what was sent from one time to another.
func (all answers) between(from, to time.Time) answers {
	return all.of(func(a answer) bool { return !a.sent.Before(from) && a.sent.Before(to) })
}

// to returns the answers to one token.
func (all answers) to(token string) answers {
	return all.of(func(a answer) bool { return a.token == token })
}

// admitted returns those that no limit refused. The server that is asked for does not exist, and not every token may look.
func (all answers) admitted() answers {
	return all.of(func(a answer) bool { return a.status == http.StatusNotFound || a.status == http.StatusForbidden })
}

// failed are those that no client should see: neither an answer nor a refusal by a limit.
func (all answers) failed() answers {
	return all.of(func(a answer) bool {
		return a.err != nil || a.status >= http.StatusInternalServerError || a.status == http.StatusUnauthorized
	})
}

func (all answers) percentile(share float64) time.Duration {
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

// noneFailed fails the test where a request did.
func noneFailed(t *testing.T, row string, all answers) {
	t.Helper()
	bad := all.failed()
	note(t, row, "failed requests", countOf(bad, all), "none")
	if len(bad) > 0 {
		t.Errorf("%d of %d failed; the first: %d %v", len(bad), len(all), bad[0].status, bad[0].err)
	}
}

func countOf(some, all answers) string { return fmt.Sprintf("%d of %d", len(some), len(all)) }
