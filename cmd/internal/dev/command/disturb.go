package command

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A fault is what a client gets in place of a success: the gateway's error for a service in that
// state, no answer, or a late one.
type fault struct {
	name, code, text string
	status           int
	retryAfter       []string
}

func faults() []fault { // equally frequent
	return []fault{
		{"rate limited", "rate_limited", "the service behind this operation asked to slow down", http.StatusTooManyRequests,
			[]string{"1"}},
		{"unavailable", "unavailable", "the service is unavailable for the moment", http.StatusServiceUnavailable,
			[]string{"1"}},
		{"timeout", "timeout", "the service did not answer in time", http.StatusGatewayTimeout, nil},
		{name: "cut"}, {name: "late"},
	}
}

// A disturber disturbs a share of the requests to the API. Which ones, in the order of arrival, and
// how, depends on the seed alone.
type disturber struct {
	next     http.Handler
	share    float64
	seed     uint64
	logger   *slog.Logger
	requests atomic.Uint64 // so far
}

// ServeHTTP implements [http.Handler]. In place of a request that gets a 429 or 503, the gateway
// serves OPTIONS: that executes nothing, and is checked and counted like the request.
func (d *disturber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &answer{ResponseWriter: w, body: io.Discard}
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		if random := rand.New(rand.NewPCG(d.seed, d.requests.Add(1))); random.Float64() < d.share {
			a.fault = faults()[random.IntN(len(faults()))]
		}
	}
	switch a.name {
	case "late":
		select {
		case <-time.After(2 * time.Second):
		case <-r.Context().Done():
		}
		fallthrough
	case "":
		d.next.ServeHTTP(w, r)
		return
	case "rate limited", "unavailable":
		r = r.Clone(r.Context())
		r.Method = http.MethodOptions
	}
	d.next.ServeHTTP(a, r)
	d.logger.Info("disturbed", "fault", a.name, "request_id", w.Header().Get("X-Request-Id"))
	if a.name == "cut" && a.body == io.Discard {
		panic(http.ErrAbortHandler)
	}
}

// An answer replaces a success of the gateway by a fault, and passes on what the gateway itself
// refuses.
type answer struct {
	http.ResponseWriter
	fault

	body io.Writer // of the gateway's answer: discarded if that is replaced
}

// WriteHeader implements [http.ResponseWriter]. Of the gateway's headers, an error has those of
// every response.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		a.body = a.ResponseWriter
		a.ResponseWriter.WriteHeader(status)
	} else if a.name != "cut" {
		h := a.Header()
		common := strings.Fields("X-Request-Id Cache-Control X-Content-Type-Options Strict-Transport-Security Ratelimit " +
			"Ratelimit-Policy")
		maps.DeleteFunc(h, func(name string, _ []string) bool { return !slices.Contains(common, name) })
		h["Content-Type"], h["Retry-After"] = []string{"application/json; charset=utf-8"}, a.retryAfter
		h["Link"] = []string{"</docs/errors/#" + a.code + `>; rel="help"`}
		a.ResponseWriter.WriteHeader(a.status)
		_, _ = fmt.Fprintf(a.ResponseWriter, `{"error":%q,"code":%q}`, a.text, a.code) // fails only if the client has gone
	}
}

func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// FlushError leaves the flush to the end of the request: it would begin an answer that is cut.
func (a *answer) FlushError() error { return nil }

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
