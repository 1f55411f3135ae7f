package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/gate/config"
)

// Paths of probes, which need no credentials and expose only the state of the gateway.
const (
	pathLive  = "/livez"
	pathReady = "/readyz"
)

// Paths of HTML documents. They contain no data of the gateway and need no token, because the page
// asks the operator for it, but they need the client certificate if certificates are configured.
const (
	pathPage     = "/"
	pathRunbooks = "/runbooks/" // and the name of one
	pathMetrics  = "/metrics"   // no document; the token for metrics opens it
)

// isDocument reports whether a path is that of a document.
func isDocument(urlPath string) bool {
	dir, name := path.Split(urlPath)
	return urlPath == pathPage || dir == pathRunbooks && name != ""
}

// Access configures authentication. If both Token and ClientCertificates are set, a request needs
// both.
type Access struct {
	Token              string // of operators, until SetTokens; "" for none
	MetricsToken       string // for reading the metrics and nothing else, until SetTokens; "" for none
	ClientCertificates bool   // require a client certificate, which the TLS configuration verifies
	Listen             string // configured address of the listener
}

// Reasons for refused access, in logs and metrics.
const (
	refusedHost        = "host"        // the listener is on loopback and the Host header is another name
	refusedSite        = "site"        // a browser sent the request for another site
	refusedCertificate = "certificate" // no client certificate
	refusedToken       = "token"       // no token, or none that opens the path
)

// A bearer is a token that requests must send.
type bearer struct {
	required bool
	hash     [sha256.Size]byte
	inForce  context.Context // ends when another token replaces it
	replace  context.CancelFunc
}

func newBearer(text string) *bearer {
	t := &bearer{required: text != "", hash: sha256.Sum256([]byte(text))}
	t.inForce, t.replace = context.WithCancel(context.Background())
	return t
}

// SetTokens replaces the token of operators and that for metrics, "" for none, and returns which of
// them differ from the previous ones. Requests that a previous one admitted are canceled, so
// profiles and traces end. SetTokens is safe for concurrent use with requests, but not with itself.
func (a *Admin) SetTokens(operators, metrics string) (operatorsChanged, metricsChanged bool) {
	return replaceToken(&a.token, operators), replaceToken(&a.metricsToken, metrics)
}

func replaceToken(current *atomic.Pointer[bearer], text string) (changed bool) {
	next, before := newBearer(text), current.Load()
	if next.hash == before.hash {
		return false
	}
	current.Store(next)
	before.replace()
	return true
}

// authorize returns the token that the request needs or has, and whether it may read the path. The
// token of operators opens all paths, and that for metrics only the metrics, which need one of the
// two if one is configured.
func (a *Admin) authorize(r *http.Request) (t *bearer, ok bool) {
	t = a.token.Load()
	reads := r.URL.Path == pathMetrics && (r.Method == http.MethodGet || r.Method == http.MethodHead)
	if metrics := a.metricsToken.Load(); metrics.required && reads && (!t.required || isBearer(r.Header, metrics.hash)) {
		t = metrics
	}
	return t, !t.required || isBearer(r.Header, t.hash)
}

// serve calls next with a request that is canceled when the token is replaced.
func (t *bearer) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(t.inForce, cancel)()
	next.ServeHTTP(w, r.WithContext(ctx))
}

// guard passes permitted requests to next, and holds the connections of those that needed
// credentials. It rejects, logs and counts other requests.
func (a *Admin) guard(next http.Handler) http.Handler {
	isLocal, certificates := a.options.Access.loopbackHosts(), a.options.Access.ClientCertificates
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		probe := r.URL.Path == pathLive || r.URL.Path == pathReady
		page := isDocument(r.URL.Path)
		token, authorized := a.authorize(r)
		switch {
		case isLocal != nil && !isLocal(r.Host): // DNS rebinding
			a.refuse(w, r, refusedHost, "the Host header is not a name of this listener")
		case isCrossSite(r) && !(page && isNavigation(r)):
			a.refuse(w, r, refusedSite, "requests from other sites are not allowed")
		case probe:
			next.ServeHTTP(w, r)
		case certificates && certificateSubject(r) == "":
			a.refuse(w, r, refusedCertificate, "a client certificate is required")
		case !page && !authorized:
			a.refuse(w, r, refusedToken, "missing or wrong admin token")
		default:
			if certificates || token.required && !page {
				defer a.options.MarkBusy(r.Context())()
			}
			token.serve(next, w, r)
		}
	})
}

// loopbackHosts returns a check of the Host header for a listener on loopback, or nil for other
// listeners, which allow any Host.
func (a Access) loopbackHosts() func(host string) bool {
	listen, _, err := net.SplitHostPort(a.Listen)
	if err != nil || !config.IsLoopback(listen) {
		return nil
	}
	return func(hostPort string) bool {
		if hostPort == "" {
			return true // HTTP/1.0, which probes of load balancers use and browsers do not
		}
		host, _, err := net.SplitHostPort(hostPort)
		if err != nil { // no port
			host = strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]")
		}
		return config.IsLoopback(host)
	}
}

// isCrossSite reports whether a browser sent the request for another site. A browser without
// Sec-Fetch-Site sends the origin, which is "null" for a document without one.
func isCrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "":
		origin := r.Header.Get("Origin")
		_, host, _ := strings.Cut(origin, "://")
		return origin != "" && !strings.EqualFold(host, r.Host)
	case "none", "same-origin":
		return false
	}
	return true
}

// isNavigation reports whether a browser follows a link, for example from an alert: the other site
// cannot read the response.
func isNavigation(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

// isBearer reports whether the request has the token with that hash. Comparing hashes hides the
// length of the token.
func isBearer(h http.Header, want [sha256.Size]byte) bool {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	got := sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// certificateSubject returns the subject of the verified client certificate, or "" without one.
func certificateSubject(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return ""
	}
	certificate := r.TLS.VerifiedChains[0][0]
	if name := certificate.Subject.String(); name != "" {
		return name
	}
	return "serial " + certificate.SerialNumber.String() // it may have only alternative names
}

// rejectTokens rejects requests with an API token in the URL or in X-Operator. The response does
// not contain the token.
func rejectTokens(prefix string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hasToken(r, prefix) {
			Respond(w, http.StatusBadRequest,
				Failure{Text: "that is a token; use its id, which is in the access log", Code: "token_in_url"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hasToken(r *http.Request, prefix string) bool {
	query, _ := url.QueryUnescape(r.URL.RawQuery)
	return strings.Contains(strings.Join([]string{r.URL.Path, r.URL.RawQuery, query, operator(r)}, "\n"), prefix)
}

// newRefusals returns the counter of refused access.
func newRefusals() *prometheus.CounterVec {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_admin_refused_total",
		Help: "Requests that were refused access. host: no loopback name on a loopback listener; site: a browser on " +
			"another site.",
	}, []string{"reason"})
	for _, reason := range []string{refusedHost, refusedSite, refusedCertificate, refusedToken} {
		count.WithLabelValues(reason)
	}
	return count
}

// refuse responds to a request, and counts and logs the refusal. It logs no value that the client
// chose: credentials and path may contain a token.
func (a *Admin) refuse(w http.ResponseWriter, r *http.Request, reason, text string) {
	a.refusals.WithLabelValues(reason).Inc()
	if a.options.RefusalLines.Allow(reason) {
		attrs := []any{slog.String("reason", reason), slog.String("remote", r.RemoteAddr)}
		if _, pattern := a.mux.Handler(r); pattern != "" { // "" for an unknown path or method
			method, path, _ := strings.Cut(pattern, " ")
			attrs = append(attrs, slog.String("method", method), slog.String("path", path))
		}
		a.options.Logger.Warn("admin access refused", attrs...)
	}
	status, code := http.StatusForbidden, "forbidden"
	if reason == refusedToken {
		w.Header().Set("WWW-Authenticate", `Bearer realm="opsgate admin"`)
		status, code = http.StatusUnauthorized, "unauthorized"
	}
	Respond(w, status, Failure{Text: text, Code: code})
}
