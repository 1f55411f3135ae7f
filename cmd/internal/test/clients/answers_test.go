package clients

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"opsgate/internal/testkit"
)

// checkSettings runs a program with settings that cannot work: each is refused at once, by an error
// without the token.
func checkSettings(t *testing.T, dir string, program []string) {
	t.Helper()
	const urlError = "the URL of the API must be like https://api.example.com, without a user, a query and a fragment"
	const tokenError = "the token is empty, or has a character that no token has, such as a space or a line end"
	const good = "https://api.example.com"
	wrong, err := json.Marshal([][2]string{
		{good, ""}, {good, "secret\n"}, {good, "sec ret"}, {good, "\ufeffsecret"}, {"", "secret"}, {"api.example.com", "secret"},
		{"https://", "secret"}, {"ftp://api.example.com", "secret"}, {"https://a:b@api.example.com", "secret"}, {good + "/?a=b", "secret"},
	})
	testkit.Must(t, err)
	var connections atomic.Int32
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	untrusted.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	untrusted.StartTLS()
	defer untrusted.Close()
	var got []string
	decode(t, run(t, dir, []string{"OPSCTL_URL=" + untrusted.URL}, append(program, "settings", string(wrong))...), &got)
	want := slices.Concat(slices.Repeat([]string{tokenError}, 4), slices.Repeat([]string{urlError}, 6), []string{
		"the secret of a webhook is whsec_ and base64, like whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "unsafe true",
	})
	if !slices.Equal(got, want) {
		t.Errorf("wrong settings: got\n%q, want\n%q", got, want)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections to a server without a valid certificate, want 1", n)
	}
}

// checkAnswers runs a program against answers that the gateway gives seldom and proxies give: a
// Retry-After that is a date, no answer to the first try, more denials than attempts, denials
// without end, a 304, and an error in another format with the token. The base URL has a path.
// Iterators over pages can be used twice. Where the language has it, the program uses the proxy of
// the environment.
func checkAnswers(t *testing.T, name, dir string, program []string) {
	t.Helper()
	var denied, hung atomic.Bool
	var endless atomic.Int32
	until := time.Now().Add(3 * time.Second).Truncate(time.Second)
	api := http.NewServeMux()
	api.HandleFunc("/v1/me", func(w http.ResponseWriter, _ *http.Request) {
		if !denied.Swap(true) {
			w.Header().Set("Retry-After", until.UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if early := time.Until(until); early > 0 {
			t.Errorf("the repeat came %v before the date of Retry-After", early)
		}
		_, _ = io.WriteString(w, `{"teamId": "team", "tokenId": "token", "scopes": []}`)
	})
	api.HandleFunc("/v1/server-groups", func(w http.ResponseWriter, r *http.Request) {
		if !hung.Swap(true) {
			<-r.Context().Done()
		}
		_, _ = io.WriteString(w, `[]`)
	})
	api.HandleFunc("/v1/incidents", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("cursor") {
			_, _ = io.WriteString(w, `{"items": [{"id": "3"}], "nextCursor": null}`)
			return
		}
		_, _ = io.WriteString(w, `{"items": [{"id": "1"}, {"id": "2"}], "nextCursor": "next"}`)
	})
	api.HandleFunc("/v1/status-pages", afterDenials(`[]`))
	api.HandleFunc("/v1/servers/id", func(w http.ResponseWriter, _ *http.Request) {
		endless.Add(1)
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	api.HandleFunc("/v1/servers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "request")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"status": 1, "requestid": "other", "error": "a proxy got `+r.Header.Get("Authorization")+`", "code": "proxy"}`)
	})
	api.HandleFunc("/v1/monitors", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	server := httptest.NewServer(http.StripPrefix("/base", api))
	defer server.Close()
	url := "http://api.test/base"
	if name == "typescript" {
		url = server.URL + "/base/"
	}
	output := run(t, dir, []string{"HTTP_PROXY=" + server.URL, "OPSCTL_URL=" + url, "OPSCTL_TOKEN=secret"}, append(program, "answers")...)
	var got []string
	decode(t, output, &got)
	want := []string{"token", "0", "[3, 3]", "0", "429", "400 a proxy got Bearer [token] request", "304"}
	if name != "typescript" { // whose Headers refuse the line end that the last request of the others has
		want = append(want, "a header of the request has a character that is not allowed")
	}
	if !slices.Equal(got, want) {
		t.Errorf("unusual answers: got %q, want %q", got, want)
	}
	if n := endless.Load(); n != 3 {
		t.Errorf("a request that was denied for a second each time was sent %d times, want 3 in 2 seconds", n)
	}
}

// afterDenials answers when it has denied more requests than a program makes attempts.
func afterDenials(body string) http.HandlerFunc {
	var denials atomic.Int32
	return func(w http.ResponseWriter, _ *http.Request) {
		if denials.Add(1) <= 9 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, body)
	}
}

// checkDenials runs the program of the client whose repeats are in no package.
func checkDenials(t *testing.T, dir string, program []string) {
	t.Helper()
	server := httptest.NewServer(afterDenials(`{"teamId": "` + uuid.NewString() + `", "tokenId": "` + uuid.Max.String() + `", "scopes": []}`))
	defer server.Close()
	var got string
	decode(t, run(t, dir, []string{"OPSCTL_URL=" + server.URL, "OPSCTL_TOKEN=secret"}, append(program, "me")...), &got)
	if got != uuid.Max.String() {
		t.Errorf("after many denials: got %s", got)
	}
}
