package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
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
	secretSize   = 32               // bytes; Standard Webhooks allows 24 to 64, and SHA-256 gains nothing from more
)

// Options configure a sender. The zero value sends to public addresses with HTTPS.
type Options struct {
	// AllowHTTP allows plain HTTP, and any host, address and port. It is for demos.
	AllowHTTP bool
	// Version is in the User-Agent header; empty means 1.
	Version string
	// Clock returns the time of an attempt; nil means the current time.
	Clock func() time.Time

	inTests exceptions
}

// exceptions let tests reach receivers on the loopback interface.
type exceptions struct {
	ports    []uint16       // besides 443
	allowed  []netip.Prefix // besides public addresses
	resolver *net.Resolver
	roots    *x509.CertPool
	timeout  time.Duration // 0 for that of all others
}

type sender struct {
	options   Options
	timeout   time.Duration
	transport *http.Transport
}

// New returns a sender for webhooks.
func New(o Options) delivery.Sender {
	o.Version = cmp.Or(o.Version, "1")
	if o.Clock == nil {
		o.Clock = time.Now
	}
	timeout := cmp.Or(o.inTests.timeout, totalTimeout)
	dialer := &net.Dialer{Timeout: timeout / 2, Resolver: o.inTests.resolver}
	if !o.AllowHTTP {
		dialer.Control = o.guard()
	}
	return &sender{options: o, timeout: timeout, transport: &http.Transport{
		Proxy:       nil, // a proxy would look up names, and connect to addresses that nothing checks
		DialContext: dialer.DialContext,
		// A subscriber gets a message every few minutes at most, so that a connection is seldom
		// used again. Without this, thousands of subscribers would keep as many connections:
		// MaxIdleConns does not limit those of HTTP/2.
		DisableKeepAlives:      true,
		ForceAttemptHTTP2:      true, // has to be said beside DialContext
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.inTests.roots},
		TLSHandshakeTimeout:    timeout / 2,
		DisableCompression:     true, // the answer is not used
		MaxResponseHeaderBytes: maxHeader,
	}}
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
	if err := s.options.checkURL(m.Subscriber.Address); err != nil {
		return nil, &delivery.Failure{Kind: delivery.Permanent, Reason: err.Error()}
	}
	payload, err := Payload(m)
	if err != nil {
		return nil, err
	}
	now := s.options.Clock()
	signatures, err := sign(m, now, payload)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Subscriber.Address, bytes.NewReader(payload))
	if err != nil {
		return nil, errors.New("the URL is malformed") // err repeats it
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "opsgate-webhooks/"+s.options.Version)
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

// NewSecret returns a new random secret in the form in which it is stored: [FormatSecret] returns
// its text.
func NewSecret() []byte {
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // it never fails
	return secret
}

// FormatSecret returns the text of a secret, which libraries of Standard Webhooks take.
func FormatSecret(secret []byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(secret)
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
