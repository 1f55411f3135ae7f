package chaos

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/authn"
	"opsgate/internal/testkit"
)

// response is the result of a request, also without an HTTP response.
type response struct {
	sent       time.Time
	took       time.Duration // since it was due
	late       time.Duration // from when it was due until it was sent, because all clients were busy
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

// load sends requests at an even rate, by a bounded number of clients, to gateways, with tokens and
// paths in turn.
type load struct {
	gateways []*gateway
	base     func() string     // URL of the gateway of the next request; nil for gateways in turn
	tokens   map[string]string // by name; default: full
	token    func() string     // of the next request; nil for tokens in turn
	paths    []string          // default: one server
	body     string            // of POSTs; "" for GETs
	client   *http.Client      // default: one of its own
	rate     float64           // requests per second, independent of responses; 0 for no limit
	clients  int
	duration time.Duration // 0 for until its end
}

const mostClients = 64

// turn is a request to be sent.
type turn struct {
	number int
	due    time.Time // zero for at once
}

// during sends the load for a time, or until the test ends.
func (l load) during(t *testing.T, d time.Duration) responses {
	t.Helper()
	l.duration = d
	return l.start(t)()
}

// start sends the load in the background for its duration, or until end is called, which returns
// the responses.
func (l load) start(t *testing.T) (end func() responses) {
	t.Helper()
	if l.token == nil && l.tokens == nil {
		l.tokens = texts(t, "full")
	}
	if len(l.paths) == 0 {
		l.paths = []string{unknownServer}
	}
	ctx, stop := context.WithCancel(t.Context())
	if l.duration > 0 {
		ctx, stop = context.WithTimeout(t.Context(), l.duration)
	}
	t.Cleanup(stop)
	done := make(chan responses, 1)
	go func() { done <- l.send(ctx) }()
	return func() responses {
		if l.duration == 0 {
			stop()
		}
		return <-done
	}
}

// send sends the load until the context ends.
func (l load) send(ctx context.Context) responses {
	turns := l.schedule(ctx)
	if l.client == nil {
		transport := &http.Transport{MaxIdleConnsPerHost: l.clients}
		defer transport.CloseIdleConnections()
		l.client = &http.Client{Transport: transport, Timeout: maxWait}
	}
	names := slices.Sorted(maps.Keys(l.tokens))
	each := make([]responses, l.clients)
	var wg sync.WaitGroup
	for c := range each {
		wg.Go(func() {
			for turn := range turns {
				each[c] = append(each[c], l.request(context.WithoutCancel(ctx), turn, names))
			}
		})
	}
	wg.Wait()
	all := slices.Concat(each...)
	slices.SortFunc(all, func(a, b response) int { return a.sent.Compare(b.sent) })
	return all
}

// request sends the request of a turn.
func (l load) request(ctx context.Context, turn turn, names []string) response {
	var name, token, base string
	round, place := turn.number, 0
	if l.token != nil {
		token = l.token()
	} else {
		round, place = turn.number/len(names), turn.number%len(names)
		name, token = names[place], l.tokens[names[place]]
	}
	if l.base != nil {
		base = l.base()
	} else {
		base = l.gateways[(round+place)%len(l.gateways)].url
	}
	method := http.MethodGet
	if l.body != "" {
		method = http.MethodPost
	}
	path := l.paths[turn.number%len(l.paths)]
	a := ask(ctx, l.client, method, base+path, token, l.body).response
	a.token, a.path = name, path
	if !turn.due.IsZero() {
		a.late = a.sent.Sub(turn.due)
		a.took += a.late
	}
	return a
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
	return ask(ctx, client, http.MethodGet, url, token, "").response
}

// A reply is a response with its header and body, and its request.
type reply struct {
	response

	request *http.Request
	header  http.Header
	body    []byte
}

// ask sends a request with more header lines, such as "Accept-Encoding: identity".
func ask(ctx context.Context, client *http.Client, method, url, token, body string, lines ...string) (a reply) {
	a.sent = time.Now()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		a.err = err
		return a
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Set(name, value)
	}
	a.request = request
	response, err := client.Do(request)
	if err != nil {
		a.err = err
		return a
	}
	a.body, a.err = io.ReadAll(response.Body)
	_ = response.Body.Close()
	a.took, a.status, a.header = time.Since(a.sent), response.StatusCode, response.Header
	a.policy, a.rateLimit = response.Header.Get("RateLimit-Policy"), response.Header.Get("RateLimit")
	a.retryAfter = response.Header.Get("Retry-After")
	return a
}

// mustAsk is ask for a request that needs a response.
func mustAsk(t testing.TB, client *http.Client, method, url, token, body string, lines ...string) reply {
	t.Helper()
	a := ask(t.Context(), client, method, url, token, body, lines...)
	testkit.Must(t, a.err)
	return a
}

// mustRead decodes the JSON of a successful response.
func mustRead(t testing.TB, client *http.Client, url, token string, into any) {
	t.Helper()
	a := mustAsk(t, client, http.MethodGet, url, token, "")
	if err := json.Unmarshal(a.body, into); err != nil || a.status != http.StatusOK {
		t.Fatalf("%s: %d %.200s", url, a.status, a.body)
	}
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

// isAdmitted reports whether no limit refused the request and nothing failed. 404 and 403 are
// expected for some paths and tokens.
func (a response) isAdmitted() bool {
	return a.err == nil && (a.status == http.StatusOK || a.status == http.StatusNotFound || a.status == http.StatusForbidden)
}

func (a response) answered() time.Time { return a.sent.Add(a.took - a.late) }

func (a response) isRefused() bool { return a.err == nil && a.status == http.StatusTooManyRequests }

func (all responses) admitted() responses { return all.filter(response.isAdmitted) }

// maxIn returns the maximum number of requests that were admitted within any interval of that
// length. A request counts if it was sent and answered in the interval, because the time of its
// decision is not known: the true maximum may be higher, and is never lower.
func (all responses) maxIn(per time.Duration) (n int) {
	admitted := all.admitted()
	for _, last := range admitted {
		within := admitted.filter(func(a response) bool {
			return a.sent.After(last.answered().Add(-per)) && !a.answered().After(last.answered())
		})
		n = max(n, len(within))
	}
	return n
}

func (all responses) refused() responses { return all.filter(response.isRefused) }

// except returns the responses without these statuses.
func (all responses) except(statuses ...int) responses {
	return all.filter(func(a response) bool { return !slices.Contains(statuses, a.status) })
}

// unavailable returns the responses with 503 and retry-after.
func (all responses) unavailable() responses {
	return all.filter(func(a response) bool { return a.status == http.StatusServiceUnavailable && a.retryAfter != "" })
}

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
func noneFailed(t *testing.T, all responses) {
	t.Helper()
	bad := all.failed()
	report(t, "requests that failed", fmt.Sprintf("%d of %d", len(bad), len(all)), "none")
	if len(bad) > 0 || len(all) == 0 {
		t.Fatalf("%d of %d failed: %+v", len(bad), len(all), bad[:min(len(bad), 3)])
	}
}

// newClient returns a client with persistent connections; with roots, HTTP/2 over TLS.
func newClient(t *testing.T, roots *x509.CertPool) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: mostClients}
	if roots != nil {
		transport.TLSClientConfig, transport.ForceAttemptHTTP2 = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, true
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: maxWait}
}

// unknownTokens returns a function that returns a new well-formed token that does not exist.
func unknownTokens(t *testing.T) func() string {
	t.Helper()
	return func() string {
		text, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.Reader)
		if err != nil {
			t.Error(err)
		}
		return text
	}
}

// withoutKeepAlives returns a transport with a new connection for each request.
func withoutKeepAlives(of http.RoundTripper) http.RoundTripper {
	transport := of.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	return transport
}
