package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"opsgate/gateway/openapi/openapitest"
)

// password is the token in fuzzed requests. It is short, so that mutations keep it, and occurs in
// no response.
const password = "sesame"

// Every response is described by the OpenAPI document and is no 5xx, and every call of a service is
// valid, for any bytes that a client sends.
func FuzzRequest(f *testing.F) {
	for _, seed := range requestSeeds() {
		f.Add([]byte(seed))
	}
	conn := &model{}
	g := newModelled(f, conn)
	server, validator := startWireServer(f, g), openapitest.New(f)
	bearer := regexp.MustCompile(`^(?i:bearer) +` + password + ` *$`)
	f.Fuzz(func(t *testing.T, sent []byte) {
		requests, answered := server.serve(sent)
		output := bytes.Clone(answered.Bytes())
		answers := bufio.NewReader(answered)
		for i, req := range requests {
			resp, body, err := readAnswer(answers, req.Request)
			if err != nil {
				interim := string(output) == "HTTP/1.1 100 Continue\r\n\r\n" // the body was requested and did not arrive
				if i < len(requests)-1 || len(output) > 0 && i == 0 && !interim || int64(req.body.Len()) >= req.ContentLength && req.ContentLength >= 0 {
					t.Fatalf("%q: %d requests, no response to number %d: %v\n%q", sent, len(requests), i, err, output)
				}
				return // the body was incomplete, and the connection was closed
			}
			x := openapitest.Exchange{Request: req.Request, RequestBody: req.body.Bytes(), Status: resp.StatusCode, Header: resp.Header, Body: body}
			validator.CheckResponse(t, x)
			authorization := req.Header["Authorization"]
			known := len(authorization) == 1 && bearer.MatchString(authorization[0])
			if inside := strings.HasPrefix(req.URL.Path, "/v1/"); resp.StatusCode >= 500 || inside && known == (resp.StatusCode == 401) {
				t.Errorf("%q: %d", sent, resp.StatusCode)
			}
		}
		mustBeOfTheServer(t, answers)
		if bytes.Count(sent, []byte(password)) == 1 && bytes.Contains(output, []byte(password)) {
			t.Errorf("%q: the token is in the response: %q", sent, output)
		}
		if wrong := conn.takeViolations(); len(wrong) > 0 || server.panicked() {
			t.Errorf("%q: %v, log %q", sent, wrong, server.log.String())
		}
	})
}

// readAnswer reads the next response that is not interim.
func readAnswer(from *bufio.Reader, req *http.Request) (*http.Response, []byte, error) {
	for {
		resp, err := http.ReadResponse(from, req)
		if err != nil {
			return nil, nil, err
		}
		if resp.StatusCode == http.StatusContinue {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		return resp, body, err
	}
}

// mustBeOfTheServer checks that the rest is at most net/http's response to an invalid request.
func mustBeOfTheServer(t *testing.T, answers *bufio.Reader) {
	t.Helper()
	if _, err := answers.Peek(1); errors.Is(err, io.EOF) {
		return
	}
	resp, _, err := readAnswer(answers, nil)
	if err != nil {
		t.Fatalf("the output is not a response: %v", err)
	}
	if !slices.Contains([]int{400, 417, 431, 501, 505}, resp.StatusCode) || !resp.Close {
		t.Errorf("the server sent %d, closing: %v", resp.StatusCode, resp.Close)
	}
	if rest, _ := io.ReadAll(answers); len(rest) > 0 {
		t.Errorf("output after the last response: %q", rest)
	}
}

func requestSeeds() []string {
	const head, create = " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + password + "\r\n", newIncident
	var seeds []string
	for _, target := range []string{
		"/v1/me", "/v1/servers", "/v1/servers/" + someID, "/v1/servers/" + someID + "/metrics?range=7d", "/v1/server-groups",
		"/v1/servers/" + someID + "/commands?page=2&pageSize=5", "/v1/servers/" + someID + "/scheduled-commands", "/v1/monitors",
		"/v1/monitors/" + someID + "/checks?since=2026-01-01T00:00:00+01:00", "/v1/incidents?limit=1&cursor=abc", "/v1/incidents/" + someID,
		"/v1/status-pages", "/v1/status-pages/" + someID, "/v1/status-pages/" + someID + "/incidents", "/v1/audit?action=incident.&limit=2",
		"/v1/servers/../servers", "/v1//me", "/v1/servers/%2e", "http://h/v1/me", "*", "/v1/me?access_token=" + password,
	} {
		seeds = append(seeds, "GET "+target+head+"\r\n")
	}
	post := func(target, headers, body string) string {
		return "POST " + target + head + headers + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	return append(seeds,
		post("/v1/incidents", "Idempotency-Key: k1\r\n", create), post("/v1/incidents", "Content-Type: text/plain\r\nExpect: 100-continue\r\n", "x=1&y"),
		"POST /v1/incidents"+head+"Transfer-Encoding: chunked\r\nContent-Type: application/json;charset=utf-8\r\n\r\n"+
			strconv.FormatInt(int64(len(create)), 16)+"\r\n"+create+"\r\n0\r\n\r\n",
		post("/v1/incidents/"+someID+"/updates", "", `{"status":"resolved","message":"m"}`), post("/v1/incidents", "", `{"title":1}`),
		post("/v1/incidents", "Content-Encoding: gzip, identity\r\n", create), post("/v1/incidents", "", "{"+distinctNames(1000)[1:]+"}"),
		post("/v1/incidents", "", `{"title":"\u202e","message":"\u200b","\ud800":[[[{"":-1e5}]]],"title":0}`),
		"POST /v1/incidents"+head+"Content-Length: 99\r\n\r\n{", "POST /v1/incidents"+head+"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
		"GET /v1/me"+head+"\r\nHEAD /v1/servers"+head+"Accept-Encoding: gzip\r\n\r\nDELETE /v1/me"+head+"\r\nOPTIONS /v1/incidents"+head+"\r\n",
		"GET /v1/incidents"+head+"X-Request-Id: a b\r\nX-Forwarded-For: 1.2.3.4, [::1]:1\r\nIf-None-Match: *\r\nAccept-Encoding: gzip;q=0\r\n\r\n",
		"GET /v1/incidents"+head+"Authorization: Basic x\r\nX-Request-Id: 1\r\nX-Request-Id: 2\r\n\r\n",
		"GET /docs/ HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n", "BREW /openapi.json HTTP/1.1\r\nHost: h\r\n\r\n", "GET /v1/me HTTP/3.9\r\n\r\n",
		"GET /v1/me HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n", "CONNECT h:1"+head+"\r\n", "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 20<<10)+"\r\n\r\n",
		"OPTIONS *"+head+"\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /v1/me"+head+"Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
	)
}
