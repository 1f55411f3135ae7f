package chaos

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
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

// outcome is the result of a request.
type outcome struct {
	request    *http.Request
	sent, done time.Time
	status     int
	header     http.Header
	body       []byte
	err        error
}

// results counts outcomes and collects unexpected ones.
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

// total returns the number of outcomes, and of those with a status.
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

// make sends a request. With an idempotency key it retries until success.
func (s *soak) make(ctx context.Context, client *http.Client, g *gateway, v soakRequest, validator *openapitest.Validator) {
	if v.mark != "" {
		s.journal.addWrite(v)
	}
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for begun := time.Now(); ; <-again.C {
		o := s.send(ctx, client, g, v)
		s.check(v, o, validator)
		if v.mark != "" && o.status == http.StatusOK {
			s.journal.acknowledge(v, o.body)
		}
		if v.headers["Idempotency-Key"] == "" || o.status != http.StatusConflict && !o.isFailure() || time.Since(begun) > maxWait {
			return
		}
	}
}

func (s *soak) send(ctx context.Context, client *http.Client, g *gateway, v soakRequest) (o outcome) {
	if v.hangUpAfter > 0 {
		var hangUp context.CancelFunc
		ctx, hangUp = context.WithTimeout(ctx, v.hangUpAfter)
		defer hangUp()
	}
	o.request, o.err = http.NewRequestWithContext(ctx, v.method, g.url+v.path, strings.NewReader(v.body))
	if o.err != nil {
		return o
	}
	for name, value := range v.headers {
		o.request.Header.Set(name, value)
	}
	if v.token != "" {
		o.request.Header.Set("Authorization", "Bearer "+v.token)
	}
	o.request.Close = v.fresh
	o.sent = time.Now()
	defer func() { o.done = time.Now() }()
	response, err := client.Do(o.request)
	if err != nil {
		o.err = err
		return o
	}
	defer func() { _ = response.Body.Close() }()
	o.status, o.header = response.StatusCode, response.Header
	o.body, o.err = io.ReadAll(response.Body)
	return o
}

// check counts an outcome and records unexpected ones.
func (s *soak) check(v soakRequest, o outcome, validator *openapitest.Validator) {
	where := fmt.Sprintf("%s: %s %s", v.kind, v.method, v.path)
	if o.err != nil {
		if v.hangUpAfter == 0 && len(v.body) <= maxBody { // the connection may be closed while a large body is sent
			s.results.addError("%s: no response: %v", where, o.err)
		}
		s.results.count(v.kind, 0)
		return
	}
	s.results.count(v.kind, o.status)
	if tag := o.header.Get("ETag"); o.status == http.StatusOK && tag != "" {
		s.journal.setTag(v.path, tag)
	}
	switch {
	case o.isFailure():
		s.results.fail(failure{kind: where, sent: o.sent, done: o.done, status: o.status})
	case !slices.Contains(v.allowed, o.status):
		s.results.addError("%s: %d, not one of %v: %.200s", where, o.status, v.allowed, o.body)
	}
	if o.status < http.StatusBadRequest && o.done.UnixNano()%validateEvery != 0 || len(v.body) > maxBody {
		return
	}
	x := openapitest.Exchange{Request: o.request, RequestBody: []byte(v.body), Status: o.status, Header: o.header, Body: o.body}
	if err := validator.Check(x); err != nil {
		s.results.addError("%s: %d: %v", where, o.status, err)
	}
}

func (o outcome) isFailure() bool {
	return slices.Contains([]int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, o.status)
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
