package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode"
)

// Any request is either answered for valid parameters, or rejected with a reason. The log contains
// no text that the client chose, except the cleaned X-Operator.
func FuzzRequest(f *testing.F) {
	for _, target := range []string{
		"/admin/limits/tok-1?team_id=team-1", "/admin/limits?n=5", "/admin/limits/" + tokenPrefix + "x", "/admin/limits/a%2fb", "/admin/config?x=1",
		"/admin/explain?token_id=t&method=GET&path=/v1/me", "/admin/limits/%6fps_live_x", "/admin/limits?n=1&n=2", "/admin/limits/t?team_id=%00", "/readyz",
		"/admin//limits", "/debug/pprof/cmdline", "/nothing", "/admin/explain?token_id=&method=&path=", "/admin/explain?token_id=a%20b&team_id=%00&method=get&path=v1",
		"/admin/explain?token_id=ops_live_x&method=POST&path=/%25zz", "/admin/explain?token_id=t&team_id=t&method=GET&path=//host/../%E2%80%AE?%25",
	} {
		f.Add("GET", target, "127.0.0.1:9090", "Bearer secret", "ann")
		f.Add("DELETE", target, "localhost", "", "an\nn \u202e\xff")
	}
	f.Add("GET", "/admin/config", "evil.test", "Bearer secret", "")
	f.Add("DELETE", "/admin/limits/t", "localhost", "Bearer secret", "ops_\x00live_x")
	parts := options(f)
	f.Fuzz(func(t *testing.T, method, target, host, authorization, operator string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.HasPrefix(u.Path, "/debug/pprof/") && u.Path != "/debug/pprof/cmdline" || u.Path == "/metrics" {
			return // profiles are slow
		}
		request := (&http.Request{Method: method, URL: u, Host: host, RemoteAddr: "127.0.0.1:1", Header: http.Header{
			"Authorization": {authorization}, "X-Operator": {operator},
		}}).WithContext(t.Context())
		log, w := new(bytes.Buffer), httptest.NewRecorder()
		parts.withAccess(Access{Token: "secret", Listen: "127.0.0.1:9090"}, log).ServeHTTP(w, request)
		if starting := u.Path == "/readyz" && w.Code == 503; !starting && (w.Code >= 500 || w.Code >= 400 && !hasReason(w)) {
			t.Errorf("%s %s: %d %s", method, target, w.Code, w.Body)
		}
		inside := w.Code < 300 && strings.HasPrefix(u.Path, "/admin/")
		if scheme, token, _ := strings.Cut(authorization, " "); inside && !(strings.EqualFold(scheme, "bearer") && token == "secret") {
			t.Errorf("%s %s with %q was answered", method, target, authorization)
		}
		var got struct {
			Question
			Tokens []struct{}
		}
		_ = json.Unmarshal(w.Body.Bytes(), &got)
		if s := got.Subject; inside && s != (Subject{}) && (!isID(s.TokenID) || s.TeamID != "" && !isID(s.TeamID) || strings.Contains(s.TokenID+s.TeamID, tokenPrefix)) {
			t.Errorf("%s %s: invalid subject %+v", method, target, s)
		}
		if q := got.Question; inside && u.Path == "/admin/explain" && (q.Path != u.Query().Get("path") || q.Path[0] != '/' || strings.Contains(q.Path, tokenPrefix)) {
			t.Errorf("%s %s: invalid question %+v", method, target, q)
		}
		if len(got.Tokens) > 1000 || w.Code == 204 && method != "DELETE" {
			t.Errorf("%s %s: %d tokens, %d", method, target, len(got.Tokens), w.Code)
		}
		checkLog(t, log.Bytes())
	})
}

// hasReason reports whether an error response is a Failure or, for unknown paths and methods, of
// http.ServeMux.
func hasReason(w *httptest.ResponseRecorder) bool {
	var failure Failure
	decoder := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&failure) == nil && failure.Text != "" && failure.Code != "" {
		return w.Header().Get("Content-Type") == "application/json"
	}
	return w.Code == http.StatusNotFound || w.Code == http.StatusMethodNotAllowed
}

func isID(s string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}

// checkLog checks that each line is a JSON object, and that the operator's name is printable.
func checkLog(t *testing.T, log []byte) {
	t.Helper()
	for line := range bytes.Lines(log) {
		var entry struct{ Operator string }
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if strings.Contains(entry.Operator, tokenPrefix) {
			t.Errorf("%q contains a token", line)
		}
		if len([]rune(entry.Operator)) > 64 || strings.ContainsFunc(entry.Operator, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("the operator is %q", entry.Operator)
		}
	}
}
