package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"golang.org/x/net/http/httpguts"

	"opsgate/gateway/openapi/openapitest"
)

// A decoder is a part of a gateway that decodes input of clients or operators: what follows a target, a body, or a header field.
type decoder struct {
	name   string
	token  string   // name of the token in its requests
	seeds  []string // inputs that are mutated
	admin  bool     // on the admin listener
	target string
	body   string // "" for a GET
	header string // name of the field that has the input
	inBody bool   // the input is the body
}

// Every decoder gets random bytes and mutations of valid inputs, all decoders at the same time. gateway.FuzzRequest sends what is no valid
// HTTP.
func TestMalformedInputIsAnsweredByTheContract(t *testing.T) {
	parallel(t)
	g := startGateway(t, everyService(startBackend(t).address), unlimited+"trusted_proxies: [127.0.0.0/8]\n")
	validator, known := openapitest.New(t), tokens(t)
	ctx, cancel := context.WithTimeout(t.Context(), either(time.Minute, time.Second))
	defer cancel()
	var running sync.WaitGroup
	wrong := new(findings)
	for i, d := range decoders(resourcesOf(t, g)) {
		running.Go(func() {
			m, client := mutator{rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))}, newClient(t, nil)
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			responses, total := map[int]int{}, 0
			for ; ctx.Err() == nil; total++ {
				text := m.text(d.seeds)
				status, err := d.send(t.Context(), client, g, known[d.token].Text, validator, text)
				if err != nil {
					wrong.add("%s: %q: %v", d.name, text, err)
				}
				responses[status]++
			}
			report(t, "20", d.name, fmt.Sprintf("%d sent, responses %v", total, responses), "no 5xx")
			if *full && len(responses) < 2 { // equal responses to all mean that the input was not decoded
				t.Errorf("%s: responses %v", d.name, responses)
			}
		})
	}
	for name, run := range map[string]func(context.Context, *findings, string) int{
		"a configuration": checkConfigurations(g.base), "a record of demand": replayRecords(g.file),
	} {
		dir := t.TempDir()
		running.Go(func() { report(t, "20", name, fmt.Sprint(run(ctx, wrong, dir), " read"), "exit 0 or 1") })
	}
	running.Wait()
	for _, finding := range wrong.list[:min(len(wrong.list), 10)] {
		t.Error(finding)
	}
	expectNone(t, "20", "responses with 5xx or against the contract, and missing responses", len(wrong.list))
	expectNone(t, "20", "panics", int(g.metric(t, "opsgate_http_panics_total"))+strings.Count(g.Log.String(), "panic"))
	if got := g.get(t, "/livez"); got != "ok\n" {
		t.Errorf("/livez returns %q", got)
	}
}

// findings are violations of the contract. They are safe for concurrent use.
type findings struct {
	sync.Mutex
	list []string
}

func (f *findings) add(format string, args ...any) {
	f.Lock()
	defer f.Unlock()
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

// send sends a request with the text, and returns an error if the response violates the contract. The status is 0 for a text that cannot be
// in a request.
func (d decoder) send(
	ctx context.Context, client *http.Client, g *gateway, token string, validator *openapitest.Validator, text string,
) (status int, err error) {
	base, target, body, lines := g.url, d.target, d.body, []string{}
	switch {
	case d.admin:
		base, target = g.admin, target+text
	case d.header != "":
		if !httpguts.ValidHeaderFieldValue(text) {
			return 0, nil
		}
		lines = append(lines, d.header+": "+textproto.TrimString(text))
	case d.inBody:
		body = text
	default:
		target += text
	}
	if _, err := url.ParseRequestURI(base + target); err != nil || strings.ContainsAny(target, " \x00\x7f#") {
		return 0, nil //nolint:nilerr // not a target
	}
	method := http.MethodGet
	if d.body != "" {
		method = http.MethodPost
	}
	a := ask(ctx, client, method, base+target, token, body, lines...)
	switch {
	case a.err != nil && len(text) > maxHeaderBytes:
		return 0, nil // the kernel may drop the response if the gateway did not read all of a header that is too large
	case a.err != nil:
		return 0, a.err
	case a.status >= http.StatusInternalServerError:
		return a.status, fmt.Errorf("%d %s", a.status, a.body)
	case d.admin || a.header.Get("X-Request-Id") == "" && slices.Contains([]int{http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge}, a.status):
		return a.status, nil // of net/http
	}
	x := openapitest.Exchange{Request: a.request, RequestBody: []byte(body), Status: a.status, Header: a.header, Body: a.body}
	return a.status, errors.Join(validator.Check(x), checkList(a.header["Ratelimit"]), checkList(a.header["Ratelimit-Policy"]))
}

// maxHeaderBytes is the default of http.max_header_bytes.
const maxHeaderBytes = 16 << 10

// checkList returns an error unless a header is a list by RFC 9651.
func checkList(lines []string) error {
	_, err := httpsfv.UnmarshalList(lines)
	return err
}

// decoders returns the decoders that a client or an operator reaches over HTTP.
func decoders(r teamResources) []decoder {
	const incident = `{"title":"t","status":"resolved","impact":"none","message":"m","statusPageId":null,"componentIds":[]}`
	all := []decoder{
		{
			name: "a query of an operator", admin: true, target: "/admin/",
			seeds: []string{"explain?token_id=t&method=GET&path=/v1/me", "limits/t?team_id=x", "limits?n=5", "config"},
		},
		{
			name: "a content type", token: "incidents:write", header: "Content-Type", target: "/v1/incidents", body: "{}",
			seeds: []string{"application/json", "text/plain; charset=x"},
		},
		{
			name: "a token", header: "Authorization", target: "/v1/me",
			seeds: []string{"Bearer ops_live_000000000000000000000000000000000000", "Basic x", ""},
		},
		{
			name: "forwarding headers", token: "other_team", header: "X-Forwarded-For", target: "/v1/incidents", body: incident,
			seeds: []string{"1.2.3.4, 127.0.0.1", "[2001:db8::1%eth0]:80"},
		},
		{
			name: "an idempotency key", token: "full", header: "Idempotency-Key", target: "/v1/incidents", body: incident,
			seeds: []string{"7c9e2f60-3b1d-4a58-8e90-d2f6a1b4c705", "k", strings.Repeat("k", 255)},
		},
		{
			name: "a request id", token: "servers:read", header: "X-Request-Id", target: "/v1/server-groups",
			seeds: []string{"abc", strings.Repeat("x", 128)},
		},
		{
			name: "an encoding", token: "scheduled-commands:read", header: "Accept-Encoding",
			target: r.fill("/v1/servers/{id}/scheduled-commands", first), seeds: []string{"gzip;q=0.5, *", "identity"},
		},
		{
			name: "a condition", token: "status-pages:read", header: "If-None-Match", target: "/v1/status-pages",
			seeds: []string{`W/"a", "b"`, "*"},
		},
		{
			name: "a trace", token: "monitors:read", header: "traceparent", target: "/v1/monitors",
			seeds: []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		},
	}
	path := decoder{name: "a path", token: "read", target: "/v1/", seeds: []string{"incidents/x", "me/"}}
	for _, o := range openapitest.Operations() {
		target := r.fill(o.Path, first)
		path.seeds = append(path.seeds, strings.TrimPrefix(target, "/v1/"))
		if len(o.Query) > 0 {
			seeds := append(slices.Clone(o.Query), strings.Join(o.Query, "&"))
			all = append(all, decoder{name: "the query of " + o.ID, token: o.Scope, target: target + "?", seeds: seeds})
		}
		if o.Body != "" {
			seeds := []string{o.Body, "[]", `{"a":{"b":[1,null]}}`}
			all = append(all, decoder{name: "the body of " + o.ID, token: o.Scope, target: target, body: o.Body, inBody: true, seeds: seeds})
		}
	}
	return append(all, path)
}

// A mutator generates malformed texts.
type mutator struct{ *rand.Rand }

// text returns a seed, a mutated seed, or random bytes.
func (m mutator) text(seeds []string) string {
	text := []byte(seeds[m.IntN(len(seeds))])
	if m.IntN(10) == 0 {
		text = make([]byte, m.IntN(200))
		for i := range text {
			text[i] = byte(m.Uint32())
		}
	}
	for range m.IntN(5) {
		at := m.IntN(len(text) + 1)
		end := min(len(text), at+m.IntN(8))
		switch m.IntN(5) {
		case 0:
			text = slices.Insert(text, at, []byte(oddities[m.IntN(len(oddities))])...)
		case 1:
			text = slices.Delete(text, at, end)
		case 2:
			text = slices.Insert(text, at, bytes.Clone(text[at:end])...)
		case 3:
			text = slices.Insert(text, at, byte(m.Uint32()))
		default:
			if at < len(text) {
				text[at] ^= 1 << m.IntN(8)
			}
		}
	}
	return string(text)
}

var oddities = []string{
	"%00", "%", "%zz", "%2F", "%2e%2e", "/../", "//", "?", "&", "=", ";", ",", " ", "\t", "\x00", "\x7f", "\xff", "\u2028", "é", "\U0001F600",
	`"`, `\`, `\ud800`, "{", "}", "[", "]", ":", "null", "true", "1e999", "-1", "0", "9223372036854775808", "ops_live_", "*", "gzip", "Bearer ",
	strings.Repeat("9", 400), strings.Repeat("[", 2000), strings.Repeat("x", 20_000),
}

// checkConfigurations returns a function that runs `opsgate check` on mutated configurations.
func checkConfigurations(good string) func(context.Context, *findings, string) int {
	seeds := []string{good, good + recorded, good + "http: {max_body_bytes: 1KiB}\nlog: {level: debug}\n"}
	return func(ctx context.Context, f *findings, dir string) int {
		return runOnMutations(ctx, f, filepath.Join(dir, "opsgate.yaml"), seeds, func(file string) []string {
			return []string{"check", "--config=" + file}
		})
	}
}

// replayRecords returns a function that runs `opsgate replay` on mutated records of demand.
func replayRecords(config string) func(context.Context, *findings, string) int {
	seeds := []string{`{"opsgate_demand":1,"sample":1}` + "\n" + `{"at":"2026-01-02T12:00:00Z","token":"a","allowed":true}` + "\n" +
		`{"at":"2026-01-02T12:00:01Z","token":"a","denied":"second","retry_after_ns":5}` + "\n" + `{"dropped":3}` + "\n"}
	return func(ctx context.Context, f *findings, dir string) int {
		return runOnMutations(ctx, f, filepath.Join(dir, "demand.jsonl"), seeds, func(file string) []string {
			return []string{"replay", "--config=" + config, "--demand=" + file}
		})
	}
}

// runOnMutations runs the program on mutations of a file until the context ends, and returns their number.
func runOnMutations(ctx context.Context, f *findings, file string, seeds []string, arguments func(file string) []string) (n int) {
	m := mutator{rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))}
	for ; ctx.Err() == nil; n++ {
		text := m.text(seeds)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			f.add("%v", err)
			return n
		}
		output, err := exec.Command(program("opsgate"), arguments(file)...).CombinedOutput()
		failed, ended := errors.AsType[*exec.ExitError](err)
		if err != nil && (!ended || failed.ExitCode() != 1) || bytes.Contains(output, []byte("goroutine ")) {
			f.add("%q: %v\n%s", text, err, output)
		}
	}
	return n
}
