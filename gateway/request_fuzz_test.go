package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"opsgate/gateway/openapi/openapitest"
)

// password is the token in fuzzed requests. It is short, so that mutations keep it, and occurs in
// no response.
const password = "sesame"

// Every response is described by the OpenAPI document and is no 5xx, and every call of a service is
// valid, for any request that a client sends.
func FuzzRequest(f *testing.F) {
	for _, seed := range requestSeeds() {
		f.Add([]byte(seed))
	}
	conn := &model{}
	g, validator := newModelled(f, conn), openapitest.New(f)
	bearer := regexp.MustCompile(`^(?i:bearer) +` + password + ` *$`)
	f.Fuzz(func(t *testing.T, sent []byte) {
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent)))
		if err != nil || req.ProtoMajor != 1 {
			return // net/http refuses it
		}
		var read bytes.Buffer
		req.Body = io.NopCloser(io.TeeReader(req.Body, &read))
		req.RemoteAddr = "127.0.0.1:50000"
		asked := req.Clone(t.Context()) // the gateway drops the header of a request that it has answered
		w := httptest.NewRecorder()
		g.ServeHTTP(w, req)
		x := openapitest.Exchange{Request: asked, RequestBody: read.Bytes(), Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
		validator.CheckResponse(t, x)
		authorization := asked.Header["Authorization"]
		known := len(authorization) == 1 && bearer.MatchString(authorization[0])
		if inside := strings.HasPrefix(asked.URL.Path, "/v1/"); w.Code >= 500 || inside && known == (w.Code == 401) {
			t.Errorf("%q: %d", sent, w.Code)
		}
		answer := fmt.Sprint(w.Header(), w.Body)
		if bytes.Count(sent, []byte(password)) == 1 && strings.Contains(answer, password) {
			t.Errorf("%q: the token is in the response: %q", sent, answer)
		}
		if wrong := conn.takeViolations(); len(wrong) > 0 {
			t.Errorf("%q: %v", sent, wrong)
		}
	})
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
