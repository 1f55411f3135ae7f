package chaos

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/authn"
	"opsgate/gateway/openapi/openapitest"
)

const (
	// soakClients is the number of clients, each with one connection to each gateway.
	soakClients = 64
	maxBody     = 128 << 10
	// validateEvery is the rate of successes that are validated against the OpenAPI document: one in four. All errors are.
	validateEvery = 4
)

// results counts replies and collects unexpected ones.
type results struct {
	sync.Mutex
	responses  map[string]int // by kind and status
	failures   []failure
	errors     []string // the first 20
	errorCount int
}

// failure is a 500, 503 or 504, which is allowed only during a fault.
type failure struct {
	kind       string
	sent, done time.Time
	status     int
}

func (c *results) count(kind string, status int) {
	c.Lock()
	defer c.Unlock()
	c.responses[fmt.Sprintf("%s: %d", kind, status)]++
}

func (c *results) fail(f failure) {
	c.Lock()
	defer c.Unlock()
	c.failures = append(c.failures, f)
}

func (c *results) addError(format string, args ...any) {
	c.Lock()
	defer c.Unlock()
	if c.errorCount++; len(c.errors) < 20 {
		c.errors = append(c.errors, time.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
	}
}

// total returns the number of replies, and of those with a status.
func (c *results) total(status string) (all, matching int) {
	for kind, n := range c.responses {
		all += n
		if strings.HasSuffix(kind, ": "+status) {
			matching += n
		}
	}
	return all, matching
}

// traffic sends requests at a constant rate until the context ends, and returns when all have finished.
func (s *soak) traffic(ctx context.Context, t *testing.T, rate float64) {
	t.Helper()
	turns := load{rate: rate}.schedule(ctx)
	validator := openapitest.New(t)
	var clients sync.WaitGroup
	for number := range soakClients {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(s.seed, uint64(number)))
			client := s.newClient(number)
			defer client.CloseIdleConnections()
			for turn := range turns {
				s.pause.RLock()
				s.make(t.Context(), client, s.gateways[turn.number%len(s.gateways)], randomRequest(s, random), validator)
				s.pause.RUnlock()
			}
		})
	}
	clients.Wait()
}

// newClient returns a client with its own connections. Every second one uses HTTP/2.
func (s *soak) newClient(number int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 1, DisableCompression: true, ForceAttemptHTTP2: number%2 == 1,
			TLSClientConfig: &tls.Config{RootCAs: s.public.roots(), MinVersion: tls.VersionTLS12},
		},
		Timeout: maxWait,
	}
}

// make sends a request, and returns the last reply. With an idempotency key it repeats the request until success.
func (s *soak) make(ctx context.Context, client *http.Client, g *gateway, v soakRequest, validator *openapitest.Validator) (a reply) {
	if v.mark != "" {
		s.journal.addWrite(v)
	}
	again := time.NewTicker(s.again)
	defer again.Stop()
	for begun := time.Now(); ; <-again.C {
		a = s.send(ctx, client, g, v)
		s.check(v, a, validator)
		if v.mark != "" && a.status == http.StatusOK && a.err == nil {
			s.journal.acknowledge(v, a.body)
		}
		unfinished := a.err != nil || a.status == http.StatusConflict || a.isFailure()
		if v.headers["Idempotency-Key"] == "" || !unfinished || time.Since(begun) > maxWait {
			return a
		}
	}
}

func (s *soak) send(ctx context.Context, client *http.Client, g *gateway, v soakRequest) reply {
	if v.hangUpAfter > 0 {
		var hangUp context.CancelFunc
		ctx, hangUp = context.WithTimeout(ctx, v.hangUpAfter)
		defer hangUp()
	}
	var lines []string
	for name, value := range v.headers {
		lines = append(lines, name+": "+value)
	}
	if v.fresh {
		lines = append(lines, "Connection: close")
	}
	return ask(ctx, client, v.method, g.url+v.path, v.token, v.body, lines...)
}

// check counts a reply and records unexpected ones.
func (s *soak) check(v soakRequest, a reply, validator *openapitest.Validator) {
	where := fmt.Sprintf("%s: %s %s", v.kind, v.method, v.path)
	if a.err != nil {
		if v.hangUpAfter == 0 && len(v.body) <= maxBody { // the connection may be closed while a large body is sent
			s.results.addError("%s: no response: %v", where, a.err)
		}
		s.results.count(v.kind, 0)
		return
	}
	s.results.count(v.kind, a.status)
	if tag := a.header.Get("ETag"); a.status == http.StatusOK && tag != "" {
		s.journal.setTag(v.path, tag)
	}
	done := a.sent.Add(a.took)
	switch {
	case a.isFailure():
		s.results.fail(failure{kind: where, sent: a.sent, done: done, status: a.status})
	case !slices.Contains(v.allowed, a.status):
		s.results.addError("%s: %d, not one of %v: %.200s", where, a.status, v.allowed, a.body)
	}
	if a.status < http.StatusBadRequest && done.UnixNano()%validateEvery != 0 || len(v.body) > maxBody {
		return
	}
	x := openapitest.Exchange{Request: a.request, RequestBody: []byte(v.body), Status: a.status, Header: a.header, Body: a.body}
	if err := validator.Check(x); err != nil {
		s.results.addError("%s: %d: %v", where, a.status, err)
	}
}

// unknownTokens returns an unknown token.
func (s *soak) unknownTokens(random *rand.Rand) string {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(random.IntN(256))
	}
	text, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.NewChaCha8(seed))
	if err != nil {
		return err.Error() // also not a token
	}
	return text
}

// kinds returns the sorted counts.
func (c *results) kinds() (lines []string) {
	for _, kind := range slices.Sorted(maps.Keys(c.responses)) {
		lines = append(lines, fmt.Sprintf("%8d  %s", c.responses[kind], kind))
	}
	return lines
}
