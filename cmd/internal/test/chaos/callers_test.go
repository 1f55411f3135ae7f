package chaos

import (
	"context"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/authn"
)

// Callers are clients that choose the URL and the token of each request. As those of a load, they are bounded and send at an even rate.
type callers struct {
	client *http.Client
	token  func() string
	rate   float64
	number int
	url    func() string // of the next request
	body   string        // of POSTs; "" for GETs
}

// start sends requests until stop is called, which returns the responses.
func (c callers) start(t *testing.T) (stop func() responses) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	turns := load{rate: c.rate}.schedule(ctx)
	each := make([]responses, min(c.number, mostClients))
	var running sync.WaitGroup
	method := http.MethodGet
	if c.body != "" {
		method = http.MethodPost
	}
	for i := range each {
		running.Go(func() {
			for turn := range turns {
				a := exchange(t.Context(), c.client, method, c.url(), c.token(), c.body)
				a.took += a.sent.Sub(turn.due)
				each[i] = append(each[i], a)
			}
		})
	}
	t.Cleanup(cancel)
	return func() responses {
		cancel()
		running.Wait()
		all := slices.Concat(each...)
		slices.SortFunc(all, func(a, b response) int { return a.sent.Compare(b.sent) })
		return all
	}
}

// during sends requests for a time.
func (c callers) during(t *testing.T, duration time.Duration) responses {
	t.Helper()
	stop := c.start(t)
	sleep(t, duration)
	return stop()
}

// newClient returns a client with persistent connections; with roots, HTTP/2 over TLS.
func newClient(t *testing.T, roots *x509.CertPool) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: mostClients}
	if roots != nil {
		transport.TLSClientConfig, transport.ForceAttemptHTTP2 = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, true
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: maxWait}
}

// notFoundURL returns the URL of an unknown server at a gateway, which is answered with 404.
func notFoundURL(base string) string { return base + "/v1/servers/" + unknown }

// tlsURL returns the URL of a gateway with a certificate.
func (g *gateway) tlsURL() string { return "https" + strings.TrimPrefix(g.url, "http") }

// always returns a function that returns the text.
func always(text string) func() string { return func() string { return text } }

// inTurn returns a function that returns the texts in turn. It is safe for concurrent use.
func inTurn(texts ...string) func() string {
	var turn atomic.Int64
	return func() string { return texts[int(turn.Add(1))%len(texts)] }
}

// unknownTokens returns a function that returns a new well-formed token that does not exist.
func unknownTokens(t *testing.T) func() string {
	t.Helper()
	return func() string {
		text, err := authn.TokenFormat{Prefix: "ops_"}.New(crand.Reader)
		if err != nil {
			t.Error(err)
		}
		return text
	}
}

// notFoundURLs returns a function that returns notFoundURL of each gateway in turn.
func notFoundURLs(gateways []*gateway) func() string {
	urls := make([]string, len(gateways))
	for i, g := range gateways {
		urls[i] = notFoundURL(g.url)
	}
	return inTurn(urls...)
}

// withoutKeepAlives returns a transport with a new connection for each request.
func withoutKeepAlives(of http.RoundTripper) http.RoundTripper {
	transport := of.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	return transport
}
