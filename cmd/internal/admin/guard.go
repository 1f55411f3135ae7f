package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// The paths that ask for no credentials: a probe has none, and learns no more than whether the gateway works.
const (
	pathLive  = "/livez"
	pathReady = "/readyz"
)

// pathPage is the page for people. It is the same document for everybody, and asks its reader for the token; where operators show a
// certificate, their browsers do for it as well.
const pathPage = "/"

// Access says who may ask. Each of Token and ClientCertificates that is set must hold.
type Access struct {
	Token              string // of operators; "" for none
	ClientCertificates bool   // operators show a certificate, which the TLS configuration verifies
	Listen             string // address as configured
}

// Why access is refused, in logs and metrics.
const (
	refusedHost        = "host"        // the Host header is no name of a listener on loopback
	refusedSite        = "site"        // a browser asks for a page of another site
	refusedCertificate = "certificate" // no client certificate
	refusedToken       = "token"       // no token, or not the admin token
)

// guard passes requests on that are permitted: to verified if the operator has shown credentials, else to next. It refuses others, each of
// which it reports to refused.
func (a Access) guard(next, verified http.Handler, refused func(r *http.Request, reason string)) http.Handler {
	want := sha256.Sum256([]byte(a.Token))
	ours := a.ourNames()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		probe := r.URL.Path == pathLive || r.URL.Path == pathReady
		page := r.URL.Path == pathPage
		switch {
		case ours != nil && !ours(r.Host):
			// A page can have its own name stand for this machine, and so be of the same origin as what it asks for.
			refused(r, refusedHost)
			respond(w, http.StatusForbidden, Failure{Text: "the Host header is no name of this listener", Code: "forbidden"})
		case foreign(r.Header) && !(page && follows(r)):
			refused(r, refusedSite)
			respond(w, http.StatusForbidden, Failure{Text: "pages of other sites may not ask", Code: "forbidden"})
		case probe:
			next.ServeHTTP(w, r)
		case a.ClientCertificates && subject(r) == "":
			refused(r, refusedCertificate)
			respond(w, http.StatusForbidden, Failure{Text: "a client certificate is required", Code: "forbidden"})
		case a.Token != "" && !page && !isBearer(r.Header, want):
			refused(r, refusedToken)
			w.Header().Set("WWW-Authenticate", `Bearer realm="opsgate admin"`)
			respond(w, http.StatusUnauthorized, Failure{Text: "missing or wrong admin token", Code: "unauthorized"})
		case a.ClientCertificates || a.Token != "" && !page:
			verified.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// holding serves requests by next, and holds their connections meanwhile.
func holding(hold func(context.Context) (release func()), next http.Handler) http.Handler {
	if hold == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer hold(r.Context())()
		next.ServeHTTP(w, r)
	})
}

// ourNames returns what tells the names by which a listener on loopback is asked; nil for another listener, which has any name.
func (a Access) ourNames() func(host string) bool {
	listen, _, err := net.SplitHostPort(a.Listen)
	if err != nil || !isLoopback(listen) {
		return nil
	}
	return func(hostPort string) bool {
		if hostPort == "" {
			return true // HTTP/1.0, as probes of load balancers speak it and no browser does
		}
		host, _, err := net.SplitHostPort(hostPort)
		if err != nil { // there is no port
			host = strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]")
		}
		return isLoopback(host)
	}
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// foreign tells whether a browser asks for a page of another site.
func foreign(h http.Header) bool {
	switch h.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return true
}

// follows tells whether a browser follows a link to show what is there by itself, as from an alert: the other site sees nothing of it.
func follows(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// isBearer tells whether the credentials are the token with that hash. Hashes have one length, whatever is compared.
func isBearer(h http.Header, want [sha256.Size]byte) bool {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	got := sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// subject returns whom a verified client certificate is for, or "".
func subject(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return ""
	}
	certificate := r.TLS.VerifiedChains[0][0]
	if name := certificate.Subject.String(); name != "" {
		return name
	}
	return "serial " + certificate.SerialNumber.String() // all of its names may stand elsewhere
}

// withoutTokens refuses a request that has a client's token in its path or query, or as who makes it, and repeats none of it.
func withoutTokens(begin string, next http.Handler) http.Handler {
	if begin == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hasToken(r, begin) {
			respond(w, http.StatusBadRequest, Failure{Text: "that is a token; its id stands in the access log", Code: "token_in_url"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hasToken(r *http.Request, begin string) bool {
	if strings.Contains(r.URL.Path, begin) || strings.Contains(r.URL.RawQuery, begin) || strings.Contains(operator(r), begin) {
		return true
	}
	for name, values := range r.URL.Query() {
		if strings.Contains(name, begin) || strings.Contains(strings.Join(values, "\n"), begin) {
			return true
		}
	}
	return false
}
