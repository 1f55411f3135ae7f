package clients

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// checkAnswers runs a program against answers that the gateway gives seldom and proxies give: a Retry-After that is a date, no answer to the
// first try, a 304, and an error in another format. Iterators over pages can be used twice. Where the language has it, the program uses the
// proxy of the environment.
func checkAnswers(t *testing.T, name, dir string, program []string) {
	t.Helper()
	var denied, hung atomic.Bool
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
	api.HandleFunc("/v1/servers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "request")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"status": 1, "requestid": "other", "error": "a proxy", "code": "proxy"}`)
	})
	api.HandleFunc("/v1/monitors", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	server := httptest.NewServer(api)
	defer server.Close()
	url := "http://api.test"
	if name == "typescript" {
		url = server.URL
	}
	output := run(t, dir, []string{"HTTP_PROXY=" + server.URL, "OPSCTL_URL=" + url, "OPSCTL_TOKEN=token"}, append(program, "answers")...)
	var got []string
	decode(t, output, &got)
	if want := []string{"token", "0", "[3, 3]", "400 a proxy request", "304"}; !slices.Equal(got, want) {
		t.Errorf("unusual answers: got %q, want %q", got, want)
	}
}
