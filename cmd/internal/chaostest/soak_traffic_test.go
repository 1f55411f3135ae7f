package chaostest

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
	// soakClients each keep one connection to each gateway.
	soakClients = 64
	maxBody     = 128 << 10
	// validateEvery is one in how many successes is held against the description of the API; errors all are.
	validateEvery = 4
)

// An outcome is what came of a visit.
type outcome struct {
	request    *http.Request
	sent, done time.Time
	status     int
	header     http.Header
	body       []byte
	err        error
}

// A results counts outcomes, and keeps those that should not have been.
type results struct {
	sync.Mutex
	answers    map[string]int // by kind and status
	failures   []failure
	errors     []string // the first of them
	errorCount int
}

// A failure is an answer that says that we failed, which is right only while something is broken.
type failure struct {
	kind       string
	sent, done time.Time
	status     int
}

func (c *results) count(kind string, status int) {
	c.Lock()
	defer c.Unlock()
	c.answers[fmt.Sprintf("%s: %d", kind, status)]++
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

// total returns how many visits were answered, and how many of them with a status.
func (c *results) total(status string) (all, such int) {
	for kind, n := range c.answers {
		all += n
		if strings.HasSuffix(kind, ": "+status) {
			such += n
		}
	}
	return all, such
}

// traffic sends visits at an even rate until the context ends, and returns when all have their outcome.
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

// newClient returns a client with connections of its own. Every other one speaks HTTP/2.
func (s *soak) newClient(number int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 1, DisableCompression: true, ForceAttemptHTTP2: number%2 == 1,
			TLSClientConfig: &tls.Config{RootCAs: s.public.roots(), MinVersion: tls.VersionTLS12},
		},
		Timeout: maxWait,
	}
}

// make makes a soakRequest, those with a key as often as it takes.
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
	o.request, o.err = http.NewRequestWithContext(ctx, v.method, g.secure()+v.path, strings.NewReader(v.body))
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

// judge says what is to be thought of an outcome.
func (s *soak) check(v soakRequest, o outcome, validator *openapitest.Validator) {
	where := fmt.Sprintf("%s: %s %s", v.kind, v.method, v.path)
	if o.err != nil {
		if v.hangUpAfter == 0 && len(v.body) <= maxBody { // what is too large may be cut off while it is sent
			s.results.addError("%s: no answer: %v", where, o.err)
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

// invented returns a token of the right form that nobody has.
func (s *soak) invented(random *rand.Rand) string {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(random.IntN(256))
	}
	text, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.NewChaCha8(seed))
	if err != nil {
		return err.Error() // which is no token either
	}
	return text
}

// kinds returns the counts in order.
func (c *results) kinds() (lines []string) {
	for _, kind := range slices.Sorted(maps.Keys(c.answers)) {
		lines = append(lines, fmt.Sprintf("%8d  %s", c.answers[kind], kind))
	}
	return lines
}
