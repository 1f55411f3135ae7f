package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"opsgate/gateway/openapi/openapitest"
)

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
