package chaos

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"opsgate/gateway/openapi/openapitest"
)

// A decoder is a part of a gateway that decodes input of clients or operators.
type decoder struct {
	name  string
	token string   // name of the token in its requests
	seeds []string // inputs that are mutated
	// request returns a request with the text as the input of the decoder.
	request func(text string) string
	admin   bool // on the admin listener
}

// Every decoder gets random bytes and mutations of valid inputs, all decoders at the same time.
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
			m := mutator{rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))}
			s := &sender{decoder: d, secret: known[d.token].Text, gateway: g, validator: validator, wrong: wrong, responses: map[int]int{}}
			s.run(ctx, m)
			s.report(t)
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

// maxHeaderBytes is the default of http.max_header_bytes.
const maxHeaderBytes = 16 << 10

// A sender sends requests to one decoder.
type sender struct {
	decoder
	secret    string // text of the token; "" for none
	gateway   *gateway
	validator *openapitest.Validator
	wrong     *findings

	conn      net.Conn
	from      *bufio.Reader
	responses map[int]int // by status; 0 for responses of net/http itself
}

// run sends requests until the context ends.
func (s *sender) run(ctx context.Context, m mutator) {
	defer s.closeConn()
	for ctx.Err() == nil {
		text := s.request(m.text(s.seeds))
		more := "Host: localhost\r\n"
		if s.secret != "" {
			more += "Authorization: Bearer " + s.secret + "\r\n"
		}
		text = strings.Replace(text, " HTTP/1.1\r\n", " HTTP/1.1\r\n"+more, 1)
		if err := s.send(text); err != nil {
			s.wrong.add("%s: %q: %v", s.name, text, err)
			s.closeConn()
		}
	}
}

// send sends a request, and returns an error if the response violates the contract.
func (s *sender) send(text string) error {
	if err := s.connect(); err != nil {
		return err
	}
	_, sendErr := io.WriteString(s.conn, text) // the gateway may respond before all is sent
	request, requestErr := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	response, err := http.ReadResponse(s.from, request)
	if len(text) > maxHeaderBytes && (errors.Is(err, syscall.ECONNRESET) || errors.Is(sendErr, syscall.ECONNRESET)) {
		s.responses[0]++ // the kernel may drop the response if the gateway did not read all of a header that is too large
		s.closeConn()
		return nil
	}
	if err != nil {
		return errors.Join(err, sendErr)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return errors.Join(err, sendErr)
	}
	if response.Close {
		s.closeConn()
	}
	if !s.admin && response.Header.Get("X-Request-Id") == "" {
		s.responses[0]++
		return checkServerError(response, requestErr)
	}
	s.responses[response.StatusCode]++
	switch {
	case response.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%d %s", response.StatusCode, body)
	case s.admin:
		return nil
	case requestErr != nil:
		return fmt.Errorf("%d for a malformed request: %w", response.StatusCode, requestErr)
	}
	_, sent, _ := strings.Cut(text, "\r\n\r\n")
	x := openapitest.Exchange{Request: request, RequestBody: []byte(sent), Status: response.StatusCode, Header: response.Header, Body: body}
	return errors.Join(s.validator.Check(x), checkList(response.Header["Ratelimit"]), checkList(response.Header["Ratelimit-Policy"]))
}

// connect connects unless there is a connection.
func (s *sender) connect() error {
	if s.conn == nil {
		address := s.gateway.url
		if s.admin {
			address = s.gateway.admin
		}
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			return err
		}
		s.conn, s.from = conn, bufio.NewReader(conn)
	}
	return s.conn.SetDeadline(time.Now().Add(maxWait))
}

// checkServerError returns an error unless net/http itself may have sent the response: to a malformed or too large request.
func checkServerError(response *http.Response, requestErr error) error {
	refusals := []int{http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge}
	if requestErr == nil && !slices.Contains(refusals, response.StatusCode) || !response.Close {
		return fmt.Errorf("net/http responded %d", response.StatusCode)
	}
	return nil
}

// checkList returns an error unless a header is a list by RFC 9651.
func checkList(lines []string) error {
	_, err := httpsfv.UnmarshalList(lines)
	return err
}

func (s *sender) closeConn() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// report reports the number of requests. Equal responses to all of them mean that the input was not decoded.
func (s *sender) report(t *testing.T) {
	t.Helper()
	total := 0
	for _, n := range s.responses {
		total += n
	}
	report(t, "20", s.name, fmt.Sprintf("%d sent, responses %v", total, s.responses), "no 5xx")
	if total == 0 || *full && len(s.responses) < 2 {
		t.Errorf("%s: responses %v", s.name, s.responses)
	}
}

// decoders returns the decoders that a client or an operator reaches over HTTP.
func decoders(r teamResources) []decoder {
	all := append(headerDecoders(r), decoder{
		name: "a query of an operator", admin: true, request: getRequest("/admin/"),
		seeds: []string{"explain?token_id=t&method=GET&path=/v1/me", "limits/t?team_id=x", "limits?n=5", "config"},
	})
	path := decoder{name: "a path", token: "read", request: getRequest("/v1/"), seeds: []string{"incidents/x", "me/"}}
	for _, o := range openapitest.Operations() {
		target := r.fill(o.Path, first)
		path.seeds = append(path.seeds, strings.TrimPrefix(target, "/v1/"))
		if len(o.Query) > 0 {
			all = append(all, decoder{
				name: "the query of " + o.ID, token: o.Scope, request: getRequest(target + "?"), seeds: append(slices.Clone(o.Query), strings.Join(o.Query, "&")),
			})
		}
		if o.Body != "" {
			all = append(all, decoder{
				name: "the body of " + o.ID, token: o.Scope, seeds: []string{o.Body, "[]", `{"a":{"b":[1,null]}}`},
				request: func(text string) string { return postRequest(target, "", text) },
			})
		}
	}
	return append(all, path)
}

// postRequest returns a request with a body and additional header lines.
func postRequest(target, headers, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", target, headers, len(body), body)
}

// getRequest returns a function that puts a text at the end of a target.
func getRequest(target string) func(text string) string {
	return func(text string) string { return "GET " + target + oneLine(text) + " HTTP/1.1\r\n\r\n" }
}

// headerDecoders returns the decoders of headers, each on an operation that accepts a valid text.
func headerDecoders(r teamResources) []decoder {
	const incident = `{"title":"t","status":"resolved","impact":"none","message":"m","statusPageId":null,"componentIds":[]}`
	header := func(name, target string) func(string) string {
		return func(text string) string {
			return "GET " + target + " HTTP/1.1\r\n" + name + ": " + oneLine(text) + "\r\n\r\n"
		}
	}
	posted := func(name, body string) func(string) string {
		return func(text string) string { return postRequest("/v1/incidents", name+": "+oneLine(text)+"\r\n", body) }
	}
	return []decoder{
		{
			name: "a content type", token: "incidents:write", seeds: []string{"application/json", "text/plain; charset=x"},
			request: posted("Content-Type", "{}"),
		},
		{
			name: "a token", request: header("Authorization", "/v1/me"),
			seeds: []string{"Bearer ops_live_000000000000000000000000000000000000", "Basic x", ""},
		},
		{
			name: "forwarding headers", token: "other_team", seeds: []string{"1.2.3.4, 127.0.0.1", "[2001:db8::1%eth0]:80"},
			request: posted("X-Forwarded-For", incident),
		},
		{
			name: "an idempotency key", token: "full", seeds: []string{"7c9e2f60-3b1d-4a58-8e90-d2f6a1b4c705", "k", strings.Repeat("k", 255)},
			request: posted("Idempotency-Key", incident),
		},
		{
			name: "a request id", token: "servers:read", request: header("X-Request-Id", "/v1/server-groups"),
			seeds: []string{"abc", strings.Repeat("x", 128)},
		},
		{
			name: "an encoding", token: "scheduled-commands:read",
			request: header("Accept-Encoding", r.fill("/v1/servers/{id}/scheduled-commands", first)),
			seeds:   []string{"gzip;q=0.5, *", "identity"},
		},
		{
			name: "a condition", token: "status-pages:read", request: header("If-None-Match", "/v1/status-pages"),
			seeds: []string{`W/"a", "b"`, "*"},
		},
		{
			name: "a trace", token: "monitors:read", request: header("traceparent", "/v1/monitors"),
			seeds: []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		},
	}
}

// oneLine removes line breaks.
func oneLine(text string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(text) }

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
