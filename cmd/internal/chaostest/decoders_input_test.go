package chaostest

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
)

// decoders are those that are asked over HTTP. Each is asked where a good text is accepted.
func decoders(server string) []decoder {
	const incident = `{"title":"t","status":"resolved","impact":"none","message":"m","statusPageId":null,"componentIds":[]}`
	post := func(headers, body string) string {
		return fmt.Sprintf("POST /v1/incidents HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", headers, len(body), body)
	}
	header := func(name, target string) func(string) string {
		return func(text string) string {
			return "GET " + target + " HTTP/1.1\r\n" + name + ": " + oneLine(text) + "\r\n\r\n"
		}
	}
	in := func(before, behind string) func(string) string {
		return func(text string) string { return "GET " + before + oneLine(text) + behind + " HTTP/1.1\r\n\r\n" }
	}
	return []decoder{
		{
			name: "a path", token: "read", request: in("/v1/", ""),
			seeds: []string{"servers", "servers/" + server, "servers/" + server + "/metrics", "incidents/x", "me/"},
		},
		{
			name: "a query of a list", token: "audit:read", request: in("/v1/audit?", ""),
			seeds: []string{"limit=5&action=incident.", "cursor=abc&limit=1", "action=%25_"},
		},
		{
			name: "a query of pages", token: "commands:read", request: in("/v1/servers/"+server+"/commands?", ""),
			seeds: []string{"page=1&pageSize=20", "page=2147483647"},
		},
		{
			name: "a query of times", token: "metrics:read", request: in("/v1/servers/"+server+"/metrics?", ""),
			seeds: []string{"range=7d", "range=1h&since=2026-01-02T03:04:05%2B01:00"},
		},
		{
			name: "a JSON body", token: "incidents:write", request: func(text string) string { return post("", text) },
			seeds: []string{incident, `{"title":1}`, "[]", `{"a":{"b":[1,null]}}`},
		},
		{
			name: "a content type", token: "incidents:write", seeds: []string{"application/json", "text/plain; charset=x"},
			request: func(text string) string { return post("Content-Type: "+oneLine(text)+"\r\n", "{}") },
		},
		{
			name: "a token", request: header("Authorization", "/v1/me"),
			seeds: []string{"Bearer ops_live_000000000000000000000000000000000000", "Basic x", ""},
		},
		{
			name: "forwarding headers", token: "other_team", seeds: []string{"1.2.3.4, 127.0.0.1", "[2001:db8::1%eth0]:80"},
			request: func(text string) string { return post("X-Forwarded-For: "+oneLine(text)+"\r\n", incident) },
		},
		{
			name: "an idempotency key", token: "full", seeds: []string{"7c9e2f60-3b1d-4a58-8e90-d2f6a1b4c705", "k", strings.Repeat("k", 255)},
			request: func(text string) string { return post("Idempotency-Key: "+oneLine(text)+"\r\n", incident) },
		},
		{
			name: "a request id", token: "servers:read", request: header("X-Request-Id", "/v1/server-groups"),
			seeds: []string{"abc", strings.Repeat("x", 128)},
		},
		{
			name: "an encoding", token: "scheduled-commands:read", request: header("Accept-Encoding", "/v1/servers/"+server+"/scheduled-commands"),
			seeds: []string{"gzip;q=0.5, *", "identity"},
		},
		{
			name: "a condition", token: "status-pages:read", request: header("If-None-Match", "/v1/status-pages"),
			seeds: []string{`W/"a", "b"`, "*"},
		},
		{
			name: "a trace", token: "monitors:read", request: header("traceparent", "/v1/monitors"),
			seeds: []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		},
		{
			name: "a question of an operator", admin: true, request: in("/admin/", ""),
			seeds: []string{"explain?token_id=t&method=GET&path=/v1/me", "limits/t?team_id=x", "limits?n=5", "config"},
		},
	}
}

// oneLine leaves out what would end the line.
func oneLine(text string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(text) }

// A mutator makes texts that nobody should write.
type mutator struct{ *rand.Rand }

// text returns a seed, a seed with a few things wrong, or noise.
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

// checkConfigurations has the program say what is wrong with configurations.
func checkConfigurations(good string) func(context.Context, *findings, string) int {
	seeds := []string{good, good + recorded, good + "http: {max_body_bytes: 1KiB}\nlog: {level: debug}\n"}
	return func(ctx context.Context, f *findings, dir string) int {
		return readOften(ctx, f, filepath.Join(dir, "opsgate.yaml"), seeds, func(file string) []string {
			return []string{"check", "--config=" + file}
		})
	}
}

// replayRecords has the program replay records of demand.
func replayRecords(config string) func(context.Context, *findings, string) int {
	seeds := []string{`{"opsgate_demand":1,"sample":1}` + "\n" + `{"at":"2026-01-02T12:00:00Z","token":"a","allowed":true}` + "\n" +
		`{"at":"2026-01-02T12:00:01Z","token":"a","denied":"second","retry_after_ns":5}` + "\n" + `{"dropped":3}` + "\n"}
	return func(ctx context.Context, f *findings, dir string) int {
		return readOften(ctx, f, filepath.Join(dir, "demand.jsonl"), seeds, func(file string) []string {
			return []string{"replay", "--config=" + config, "--demand=" + file}
		})
	}
}

// readOften has the program read mutations of a file until the context ends, and returns how many.
func readOften(ctx context.Context, f *findings, file string, seeds []string, arguments func(file string) []string) (n int) {
	m := mutator{rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))}
	for ; ctx.Err() == nil; n++ {
		text := m.text(seeds)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			f.add("%v", err)
			return n
		}
		said, err := exec.Command(program("opsgate"), arguments(file)...).CombinedOutput()
		failed, ended := errors.AsType[*exec.ExitError](err)
		if err != nil && (!ended || failed.ExitCode() != 1) || bytes.Contains(said, []byte("goroutine ")) {
			f.add("%q: %v\n%s", text, err, said)
		}
	}
	return n
}
