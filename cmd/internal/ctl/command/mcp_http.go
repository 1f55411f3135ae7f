package command

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"opsgate/internal/certs"
	"opsgate/internal/commandline"
)

// Bounds of what a client of the HTTP server can hold.
const (
	// maxMessage bounds a request: an incident whose 10,000 characters are all escaped has 120 KiB.
	maxMessage = 160 << 10
	// maxCalls bounds the requests in progress, each of at most about half a MiB.
	maxCalls = 200
	// maxMessageHeader bounds the header of a request.
	maxMessageHeader = 16 << 10
	// messageTimeout bounds the time to send a request, and that to read its answer.
	messageTimeout = 10 * time.Second
	// callGrace is how long calls in progress may take after a signal.
	callGrace = 20 * time.Second
)

// listener are the flags of the HTTP server.
type listener struct {
	Address, PublicURL, TLSCert, TLSKey string

	public *url.URL // of PublicURL; empty without it
	local  bool     // whether only this machine can connect
}

func (l *listener) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&l.Address, "listen", "",
		"`ADDR` to serve by HTTP, as 127.0.0.1:8090. Each request has the token of its caller")
	flags.StringVar(&l.PublicURL, "public-url", "",
		"`URL` of this server at the proxy before it, as https://api.example.com/mcp")
	flags.StringVar(&l.TLSCert, "tls-cert", "",
		"`FILE` with the certificate of the HTTP server, as PEM; without it, plaintext")
	flags.StringVar(&l.TLSKey, "tls-key", "",
		"`FILE` with the key of the certificate. Changed files apply to new connections")
	command.MarkFlagsRequiredTogether("tls-cert", "tls-key")
}

// check returns an error for settings that would reveal tokens or have no effect.
func (l *listener) check(p *program) error {
	host, _, err := net.SplitHostPort(l.Address)
	if err != nil {
		return fmt.Errorf("--listen needs a host and a port: %w", err)
	}
	l.local = isLoopback(host)
	l.public, err = url.Parse(l.PublicURL)
	if err != nil || l.PublicURL != "" && (l.public.Scheme != "https" || l.public.Host == "") {
		return errors.New("--public-url must be like https://api.example.com/mcp")
	}
	switch {
	case !l.local && l.TLSCert == "" && l.PublicURL == "":
		return errors.New("--listen on an address that is not loopback needs --tls-cert and --tls-key, or the https " +
			"--public-url of a proxy: tokens would be readable")
	case p.TokenFile != "":
		return errors.New("--token-file has no effect with --listen: each request has the token of its caller")
	}
	_, err = p.baseURL()
	return err
}

// serveRemote serves by HTTP until ctx ends and the calls in progress have ended. It ignores the
// token of the environment: a caller without one of its own must not act with the server's.
func (p *program) serveRemote(ctx context.Context, l listener, readOnly bool) error {
	if err := l.check(p); err != nil {
		return commandline.UsageError{Err: err}
	}
	log := slog.New(slog.NewTextHandler(p.Err, nil))
	p.Err = io.Discard // notes on a call are for its caller, who gets them in the result
	server, err := newServer(&agentAPI{p, newHTTPClient()}, nil, readOnly)
	if err != nil {
		return err
	}
	socket, err := l.listen(ctx, log)
	if err != nil {
		return err
	}
	log.Info("serving MCP", slog.String("address", socket.Addr().String()), slog.String("path", l.path()))
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // admit checks the host
	})
	return serve(ctx, socket, &http.Server{
		Handler:           http.NewCrossOriginProtection().Handler(l.admit(handler)),
		ReadHeaderTimeout: messageTimeout, ReadTimeout: messageTimeout,
		WriteTimeout:   2*messageTimeout + p.MaxWait + p.Timeout, // the time of a call is within it
		IdleTimeout:    2 * time.Minute,                          // longer than proxies keep connections
		MaxHeaderBytes: maxMessageHeader,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug), // what clients do wrong
	})
}

// listen opens the listener.
func (l *listener) listen(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	var encryption *tls.Config
	if l.TLSCert != "" {
		var err error
		if encryption, err = certs.New(certs.Options{
			Listener: "MCP", Files: certs.Files{Certificate: l.TLSCert, Key: l.TLSKey}, Logger: log,
		}); err != nil {
			return nil, err
		}
	}
	socket, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.Address)
	if err == nil && encryption != nil {
		socket = tls.NewListener(socket, encryption)
	}
	return socket, err
}

// serve serves until ctx ends and requests in progress have ended.
func serve(ctx context.Context, socket net.Listener, server *http.Server) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), callGrace)
		defer cancel()
		stopped <- server.Shutdown(limited)
	})
	defer stop()
	if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	if <-stopped != nil { // a call has not ended
		return server.Close()
	}
	return nil
}

func (l *listener) path() string { return cmp.Or(strings.TrimRight(l.public.Path, "/"), "/mcp") }

// isOwn reports whether a host is that of this server. A web page whose own name leads to this
// address (DNS rebinding) has another one; with TLS it has no certificate for it.
func (l *listener) isOwn(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	return l.local && isLoopback(name) || !l.local && l.PublicURL == "" ||
		strings.EqualFold(name, cmp.Or(l.public.Hostname(), "localhost"))
}

// admit passes on whole requests that are for this server and have a token, with the address of
// their client at the end of X-Forwarded-For. The client has written what is before it, unless it
// is a proxy, which the API determines.
func (l *listener) admit(next http.Handler) http.Handler {
	calls := make(chan struct{}, maxCalls)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !l.isOwn(r.Host):
			refuse(w, http.StatusForbidden, "This is not the address of this server: see its --public-url.")
			return
		case r.URL.Path != l.path():
			http.NotFound(w, r)
			return
		case bearer(r.Header) == "":
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "Ask the user to configure an API token for this server, which the client "+
				"sends with each request as the header Authorization: Bearer TOKEN.")
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
		if err != nil {
			refuse(w, http.StatusRequestEntityTooLarge, "The request is too large or incomplete.")
			return
		}
		if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) { // of protocols before 2025-06-18
			refuse(w, http.StatusBadRequest, "Batches are not served: each call would be a request to the API.")
			return
		}
		select {
		case calls <- struct{}{}:
		default:
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusServiceUnavailable, "The server is busy. Call the tool again in a few seconds.")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		peer, _, _ := net.SplitHostPort(r.RemoteAddr)
		r.Header.Set(headerForwardedFor, strings.Join(append(r.Header.Values(headerForwardedFor), peer), ", "))
		answer := &heldAnswer{header: w.Header(), status: http.StatusOK}
		func() {
			defer func() { <-calls }()
			next.ServeHTTP(answer, r)
		}()
		answer.writeTo(w)
	})
}

// A heldAnswer holds the answer to a call until the call has ended, so that clients that do not read
// their answers do not use up the calls in progress.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *heldAnswer) Header() http.Header { return a.header }

func (a *heldAnswer) WriteHeader(status int) { a.status = status }

func (a *heldAnswer) Write(p []byte) (int, error) { return a.body.Write(p) }

// Flush implements [http.Flusher], which the handler requires.
func (a *heldAnswer) Flush() {}

// writeTo writes the answer. The client has messageTimeout to read it.
func (a *heldAnswer) writeTo(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(messageTimeout)) // a connection has one
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // fails only if the client has disconnected
}

// refuse answers with an error of the protocol, whose text libraries show the agent.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":%q}}`, text)
}

// bearer returns the token of a request; "" without a valid one.
func bearer(h http.Header) string {
	values := h.Values("Authorization")
	scheme, token, _ := strings.Cut(cmp.Or(values...), " ")
	if len(values) != 1 || !strings.EqualFold(scheme, "Bearer") || !isToken(token) {
		return ""
	}
	return token
}
