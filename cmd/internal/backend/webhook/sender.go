package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"opsgate/cmd/internal/backend/delivery"
)

const (
	totalTimeout = 10 * time.Second // the name and the connection have half of it, and so has the TLS handshake
	maxHeader    = 16 << 10         // of an answer
	maxAnswer    = 64 << 10         // that is read
)

// Options configure a sender. The zero value sends to public addresses with HTTPS.
type Options struct {
	// AllowHTTP allows URLs with plain HTTP and with any host and port, which the dialer may still refuse. It is for demos.
	AllowHTTP bool
	// DialContext makes the connections in place of the guarded dialer: it decides which addresses may be reached. Its errors must contain
	// no secrets. It is for demos.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Version is in the User-Agent header; empty means 1.
	Version string
	// Clock returns the time of an attempt; nil means the current time.
	Clock func() time.Time
}

// New returns a sender for webhooks.
func New(o Options) delivery.Sender {
	return newSender(o, environment{policy: newPolicy(o.AllowHTTP), timeout: totalTimeout})
}

// An environment is what only tests change.
type environment struct {
	policy   policy
	timeout  time.Duration
	resolver *net.Resolver  // nil for the default
	roots    *x509.CertPool // nil for those of the system
}

type sender struct {
	environment
	clock     func() time.Time
	agent     string
	transport *http.Transport
}

func newSender(o Options, e environment) *sender {
	dialer := &net.Dialer{Timeout: e.timeout / 2, Control: e.policy.guard(), Resolver: e.resolver}
	dial := dialer.DialContext
	if o.DialContext != nil {
		dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := o.DialContext(ctx, network, address)
			if err != nil {
				return nil, &dialError{err}
			}
			return connection, nil
		}
	}
	clock := o.Clock
	if clock == nil {
		clock = time.Now
	}
	return &sender{
		environment: e,
		clock:       clock,
		agent:       "opsgate-webhooks/" + cmp.Or(o.Version, "1"),
		transport: &http.Transport{
			Proxy:       nil, // a proxy would look up names, and connect to addresses that nothing checks
			DialContext: dial,
			// A subscriber gets a message every few minutes at most, so that a connection is seldom used again. Without this, thousands of
			// subscribers would keep as many connections: MaxIdleConns does not limit those of HTTP/2.
			DisableKeepAlives:      true,
			ForceAttemptHTTP2:      true, // has to be said beside DialContext
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: e.roots},
			TLSHandshakeTimeout:    e.timeout / 2,
			DisableCompression:     true, // the answer is not used
			MaxResponseHeaderBytes: maxHeader,
		},
	}
}

// Send posts the message. A 2xx status accepts it, whatever happens to the rest of the answer.
func (s *sender) Send(ctx context.Context, m delivery.Message) error {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := s.request(limited, m)
	if err != nil {
		return err
	}
	// Client.Do would follow redirects, keep cookies, and put the URL into errors.
	response, err := s.transport.RoundTrip(request)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx) // the caller stops
	case err != nil:
		return cause(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := outcome(response.StatusCode); err != nil {
		return err
	}
	// A receiver that is still writing may take a closed connection for a request that has ended.
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer))
	return nil
}

// request returns the signed request of the message.
func (s *sender) request(ctx context.Context, m delivery.Message) (*http.Request, error) {
	if err := s.policy.checkURL(m.Subscriber.Address); err != nil {
		return nil, &delivery.Failure{Kind: delivery.Permanent, Reason: err.Error()}
	}
	payload, err := body(m)
	if err != nil {
		return nil, err
	}
	now := s.clock()
	signatures, err := sign(m, now, payload)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Subscriber.Address, bytes.NewReader(payload))
	if err != nil {
		return nil, errors.New("the URL is malformed") // err repeats it
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", s.agent)
	request.Header.Set(standardwebhooks.HeaderWebhookID, m.ID)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signatures)
	return request, nil
}

// sign returns one signature for each secret, newest first.
func sign(m delivery.Message, now time.Time, payload []byte) (string, error) {
	signatures := make([]string, len(m.Subscriber.Secrets))
	for i, secret := range m.Subscriber.Secrets {
		key, err := standardwebhooks.NewWebhookRaw(secret)
		if err != nil {
			return "", err
		}
		if signatures[i], err = key.Sign(m.ID, now, payload); err != nil {
			return "", err
		}
	}
	if len(signatures) == 0 {
		return "", errors.New("the subscriber has no secret")
	}
	return strings.Join(signatures, " "), nil
}

// outcome returns what the status of an answer means.
func outcome(status int) error {
	switch {
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusGone:
		return &delivery.Failure{Kind: delivery.Gone, Reason: "HTTP 410"}
	case status >= 300 && status <= 399:
		return fmt.Errorf("HTTP %d: redirects are not followed", status)
	}
	return fmt.Errorf("HTTP %d", status)
}
