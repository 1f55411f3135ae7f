package inbox

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// eventTimeout is how long a client may take to read an event.
const eventTimeout = 10 * time.Second

// handler serves the page on loopback hosts, and receives webhooks on hosts under .example. Other hosts are refused, so that no web site
// reads the messages by a name that it lets resolve to this machine.
func (i *Inbox) handler(s System) http.Handler {
	page := http.NewCrossOriginProtection().Handler(i.pageRoutes(s))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOf(r)
		switch {
		case isExample(host):
			i.receive(s, w, r)
		case isLoopback(host):
			page.ServeHTTP(w, r)
		default:
			http.Error(w, "this host is not served here", http.StatusMisdirectedRequest)
		}
	})
}

func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return r.Host
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (i *Inbox) pageRoutes(s System) http.Handler {
	mux := http.NewServeMux()
	document := newDocument(s)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { document.serve(w) })
	mux.HandleFunc("GET /events", i.events)
	mux.HandleFunc("GET /messages", func(w http.ResponseWriter, _ *http.Request) {
		all, _, _ := i.box.since(nil)
		writeJSON(w, struct {
			Messages []Summary `json:"messages"`
		}{all.Messages})
	})
	mux.HandleFunc("DELETE /messages", func(w http.ResponseWriter, _ *http.Request) {
		i.box.clear()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /messages/{number}", i.withMessage(func(w http.ResponseWriter, m *message) bool {
		writeJSON(w, m.detail(i.URL()))
		return true
	}))
	mux.HandleFunc("GET /messages/{number}/html", i.withMessage(func(w http.ResponseWriter, m *message) bool { return m.serveHTML(w) }))
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}))
	mux.Handle("/subscriptions/", s.Links)
	return mux
}

// withMessage serves the message that the path names. serve returns false if the message has no such content.
func (i *Inbox) withMessage(serve func(http.ResponseWriter, *message) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		secure(w)
		n, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
		m := i.box.get(n)
		if err == nil && m != nil && serve(w, m) {
			return
		}
		http.Error(w, "there is no such message, or no longer", http.StatusNotFound)
	}
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func writeJSON(w http.ResponseWriter, v any) {
	secure(w)
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(v) // fails only if the client has disconnected
}

// secure sets the headers that each response of the page has.
func secure(w http.ResponseWriter) {
	for name, value := range map[string]string{
		"Cache-Control":                "no-store",
		"Referrer-Policy":              "no-referrer",
		"X-Content-Type-Options":       "nosniff",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
}

// events serves a stream of server-sent events: all messages at first, then each change of the list.
func (i *Inbox) events(w http.ResponseWriter, r *http.Request) {
	secure(w)
	w.Header().Set("Content-Type", "text/event-stream")
	connection := http.NewResponseController(w)
	var at *position
	for {
		n, next, changed := i.box.since(at)
		at = &next
		text, _ := json.Marshal(n) // cannot fail: it holds numbers, strings and times
		_ = connection.SetWriteDeadline(time.Now().Add(eventTimeout))
		if _, err := fmt.Fprintf(w, "retry: 1000\ndata: %s\n\n", text); err != nil || connection.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
)

// document is the complete page with its Content-Security-Policy.
type document struct{ body, policy string }

// newDocument inserts style, script and the texts of the system into the page. The policy allows only these two, by hash, connections to
// the page's own listener, and frames with emails from there; it forbids forms.
func newDocument(s System) document {
	body := strings.NewReplacer("{{style}}", pageCSS, "{{script}}", pageJS, "{{sandbox}}", sandbox,
		"{{documentation}}", html.EscapeString(s.Documentation), "{{example}}", html.EscapeString(s.Example)).Replace(pageHTML)
	policy := fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; connect-src 'self'; frame-src 'self';"+
		" base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		sourceHash(pageJS), sourceHash(pageCSS))
	return document{body: body, policy: policy}
}

// sourceHash returns the hash of an inline source in the syntax of a Content-Security-Policy.
func sourceHash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (d document) serve(w http.ResponseWriter) {
	secure(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", d.policy)
	_, _ = w.Write([]byte(d.body)) // fails only if the client has disconnected
}
