package chaos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/authn"
	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
	"opsgate/internal/tracing/tracingtest"
)

// Clients and operators send tokens in the right place and in every wrong one. No response and no
// output of the programs contains a token, with debug logs and traces.
func TestNoTokenIsLeaked(t *testing.T) {
	parallel(t)
	collector := tracingtest.Start(t)
	backend := startDebugBackend(t)
	g := startGateway(t, everyService(backend.address), fmt.Sprintf("log: {level: debug}\ntrusted_proxies: [127.0.0.0/8]\n"+
		"tracing: {endpoint: %q, sample: 100%%, trust_parent: always}\nrate_limit:\n  limits: [{requests: 1000000, per: 1s}]\n"+
		"  tokens: {%s: {limits: [{requests: 2, per: 1s}], owner: tests, reason: To be refused}}\n",
		collector.GRPC, tokens(t)["read"].ID))
	c := &leakyClient{
		gateway: g, secrets: secrets(t), operations: openapitest.Operations(), server: resourcesOf(t, g)["/v1/servers"][0],
		usual: []string{tokens(t)["full"].Text, tokens(t)["full"].Text, tokens(t)["read"].Text}, responses: map[int]int{},
	}
	requests := 10_000
	if !*full {
		requests = 500
	}
	c.run(t, requests)
	outputs := map[string]string{"goroutines": c.dump, "responses": c.output.String()}
	for _, page := range []string{
		"/metrics", "/readyz", "/admin/config", "/admin/limits?n=1000", "/admin/limits/" + tokens(t)["full"].ID,
		"/admin/explain?method=GET&path=/v1/me&token_id=" + tokens(t)["full"].ID, "/debug/pprof/cmdline",
	} {
		outputs[page] = g.get(t, page)
	}
	c.sendToAdmin(t)
	g.End(t)
	backend.End(t)
	outputs["spans"] = fmt.Sprint(collector.Spans())
	outputs["log of the gateway"], outputs["log of the backend"] = g.Log.String(), backend.Log.String()
	size := 0
	for place, text := range outputs {
		if size += len(text); text == "" || text == "[]" {
			t.Errorf("%s: nothing to search", place)
		}
	}
	report(t, "requests, and responses by their status", fmt.Sprintf("%d, %v", requests, c.responses), "each kind of refusal")
	expectNone(t, fmt.Sprintf("tokens, parts or hashes of %d in %.1f MB of responses, logs, metrics, pages, dumps and spans",
		len(c.secrets), float64(size)/1e6), countLeaks(t, outputs, c.secrets))
	for _, status := range []int{200, 304, 401, 403, 404, 405, 413, 415, 422, 429} {
		if c.responses[status] == 0 && *full {
			t.Errorf("no request was answered with %d", status)
		}
	}
}

// startDebugBackend runs a backend that logs each call.
func startDebugBackend(t *testing.T) *backend {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, "opsbackend", "serve", "--listen=127.0.0.1:0", "--data-dir="+data, "--seed=demo", "--log-level=debug")
	serving, err := p.Record("serving")
	testkit.Must(t, err)
	return &backend{Process: p, address: fmt.Sprint(serving["address"])}
}

// secrets returns valid, revoked and unknown tokens.
func secrets(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, token := range tokens(t) {
		list = append(list, token.Text)
	}
	slices.Sort(list)
	format := authn.TokenFormat{Prefix: "ops_"}
	for seed := range byte(10) {
		invented, err := format.New(rand.NewChaCha8([32]byte{seed, 'x'}))
		testkit.Must(t, err)
		list = append(list, invented)
	}
	return list
}

// countLeaks counts secrets in outputs: as text, half of it, or its hash.
func countLeaks(t *testing.T, outputs map[string]string, secrets []string) (n int) {
	t.Helper()
	for _, secret := range secrets {
		hash := sha256.Sum256([]byte(secret))
		_, half, _ := strings.Cut(secret, "_live_")
		for place, text := range outputs {
			for _, form := range []string{
				half[:18], half[18:], hex.EncodeToString(hash[:]), strings.ToUpper(hex.EncodeToString(hash[:])), fmt.Sprint(hash),
				base64.StdEncoding.EncodeToString(hash[:])[:43], base64.URLEncoding.EncodeToString(hash[:])[:43], string(hash[:]),
			} {
				if at := strings.Index(text, form); at >= 0 {
					n++
					t.Errorf("%s contains a token: …%.200q…", place, text[max(0, at-100):min(len(text), at+100)])
				}
			}
		}
	}
	return n
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// leakyClient sends tokens in wrong places of requests.
type leakyClient struct {
	gateway    *gateway
	secrets    []string
	operations []openapitest.Operation
	server     string   // id of an existing server
	usual      []string // tokens of most requests

	mu        sync.Mutex
	responses map[int]int     // by status
	output    strings.Builder // headers and bodies of all responses
	dump      string          // of all goroutines, taken under load
}

// run sends requests concurrently.
func (c *leakyClient) run(t *testing.T, requests int) {
	t.Helper()
	const clients = 8
	var sending sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: maxWait}
	defer client.CloseIdleConnections()
	for number := range clients {
		sending.Go(func() {
			random := rand.New(rand.NewPCG(uint64(number), 21))
			for range requests / clients {
				c.send(t, client, random)
			}
		})
	}
	dumps := time.NewTimer(either(10*time.Second, 500*time.Millisecond))
	defer dumps.Stop()
	<-dumps.C
	c.dump = c.gateway.get(t, "/debug/pprof/goroutine?debug=2")
	sending.Wait()
}

// send sends a random request with tokens in right and wrong places.
func (c *leakyClient) send(t *testing.T, client *http.Client, random *rand.Rand) {
	t.Helper()
	request := c.request(t.Context(), random)
	response, err := client.Do(request)
	if err != nil {
		t.Errorf("%s %s: %v", request.Method, request.URL, err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("%s %s: %v", request.Method, request.URL, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.responses[response.StatusCode]++
	_ = response.Header.Write(&c.output) // to a Builder, which does not fail
	c.output.Write(body)
}

func (c *leakyClient) request(ctx context.Context, random *rand.Rand) *http.Request {
	secret, other := pick(random, append(slices.Clone(c.usual), pick(random, c.secrets))), pick(random, c.secrets)
	o, kind := pick(random, c.operations), random.IntN(16)
	if kind == 7 || kind == 8 {
		o = pick(random, writes())
	}
	target, body := strings.ReplaceAll(o.Path, "{id}", pick(random, []string{c.server, c.server, unknown, other})), ""
	header := http.Header{"Authorization": {"Bearer " + secret}, "Content-Type": {"application/json"}}
	if o.Body != "" {
		body = regexp.MustCompile(`"message":"[^"]*"`).ReplaceAllLiteralString(o.Body, fmt.Sprintf(`"message":%q`, other))
	}
	method := o.Method
	switch kind {
	case 0:
		header.Set("Authorization", pick(random, []string{
			secret, "Basic " + secret, "Bearer " + secret + "x", "Bearer " + secret[:30], "Bearer " + secret + " " + other,
		}))
	case 1:
		header.Del("Authorization")
		target += "?access_token=" + secret
	case 2:
		target += "?" + url.Values{pick(random, []string{"cursor", "action", "limit", "range", "since", "page", other}): {other}}.Encode()
	case 3:
		target = "/" + pick(random, []string{"v1/" + other, "v1/servers/" + other, other, "docs/" + other, "v1/servers//" + other})
	case 4, 5, 6:
		name := pick(random, []string{
			"X-Request-Id", "Idempotency-Key", "X-Api-Key", "Cookie", "User-Agent", "Referer", "X-Forwarded-For", "If-None-Match",
			"Accept-Encoding", "Traceparent", "Tracestate", "Baggage", "X-Forwarded-User", other,
		})
		header.Set(name, pick(random, []string{other, "token=" + other, `"` + other + `"`}))
	case 7:
		header.Set("Content-Type", "application/"+other)
	case 8:
		body = pick(random, []string{other, `{"` + other + `":1}`, `["` + other + `"]`, `{"title":"` + other, strings.Repeat(other, 3000)})
	case 9:
		method = pick(random, []string{http.MethodDelete, http.MethodOptions, strings.ToUpper(strings.ReplaceAll(other, "_", "")), other})
	case 10:
		header.Set("If-None-Match", "*")
	}
	request, err := http.NewRequestWithContext(ctx, method, c.gateway.url+target, strings.NewReader(body))
	if err != nil {
		panic(fmt.Sprintf("%s %s: %v", method, target, err)) // all of the above are valid requests
	}
	request.Header = header
	return request
}

// sendToAdmin sends tokens instead of ids to the admin listener, and checks that its responses
// contain none.
func (c *leakyClient) sendToAdmin(t *testing.T) {
	t.Helper()
	var responses bytes.Buffer
	for i, secret := range c.secrets {
		for _, target := range []string{
			"/admin/limits/" + secret, "/admin/explain?method=GET&path=/v1/me&token_id=" + secret, "/admin/limits/x?team_id=" + secret,
			"/admin/explain?token_id=x&method=GET&path=/v1/me?token=" + secret, "/" + secret, "/debug/pprof/" + secret, "/admin/config?" + secret,
		} {
			responses.WriteString(c.gateway.get(t, target))
		}
		target := fmt.Sprint(c.gateway.admin, "/admin/limits/token-", i)
		responses.Write(mustAsk(t, http.DefaultClient, http.MethodDelete, target, "", "", "X-Operator: "+secret).body)
	}
	expectNone(t, "tokens in responses of the admin listener", countLeaks(t, map[string]string{"the admin listener": responses.String()}, c.secrets))
}
