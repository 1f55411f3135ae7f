package mail_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	netmail "net/mail"
	"slices"
	"sync"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/mail"
	"opsgate/cmd/internal/test/mailtest"
	"opsgate/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

const (
	smtpUser     = "backend-user"
	smtpPassword = "correct horse battery staple"
)

// A server records the messages that it accepts.
type server struct {
	address string

	mu       sync.Mutex
	received []mailtest.Message
}

// start starts a server until the end of the test.
func start(t testing.TB, change ...func(*mailtest.Server)) *server {
	t.Helper()
	s := &server{}
	m := &mailtest.Server{Data: s.record}
	for _, f := range change {
		f(m)
	}
	s.address = m.Start(t)
	return s
}

func (s *server) record(m mailtest.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = append(s.received, m)
	return nil
}

func (s *server) messages() []mailtest.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

// only returns the only message.
func (s *server) only(t testing.TB) mailtest.Message {
	t.Helper()
	all := s.messages()
	if len(all) != 1 {
		t.Fatalf("%d messages", len(all))
	}
	return all[0]
}

// certificate returns the TLS configuration of a server for 127.0.0.1, and the authority of its
// certificate.
func certificate() (*tls.Config, *x509.CertPool) {
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	roots := x509.NewCertPool()
	roots.AddCert(https.Certificate())
	return &tls.Config{Certificates: https.TLS.Certificates, MinVersion: tls.VersionTLS12}, roots
}

// sender returns a sender for the server until the end of the test.
func (s *server) sender(t testing.TB, change ...func(*mail.Options)) *mail.Sender {
	t.Helper()
	options := mail.Options{
		Address: s.address, TLS: mail.NoTLS, From: "Harbour Status <status@harbour.example>",
		ManageURL: "https://status.harbour.example/manage/{subscriber}?page={page}", Timeout: time.Minute,
	}
	for _, f := range change {
		f(&options)
	}
	sender, err := mail.New(options)
	testkit.Must(t, err)
	return sender
}

func message() delivery.Message {
	at := time.Date(2026, 3, 1, 12, 30, 15, 0, time.FixedZone("", 3600))
	return delivery.Message{
		ID: "0199aa00-0000-7000-8000-000000000001", Event: delivery.IncidentCreated, CreatedAt: at, Attempt: 1,
		Subscriber: delivery.Subscriber{ID: "s", Address: "ada@harbour.example"},
		Page:       delivery.Page{ID: "p", Name: "Harbour", Hostname: "status.harbour.example"},
		Incident: delivery.Incident{
			ID: "0199aa00-0000-7000-8000-0000000000ff", Title: "Slow berths", Impact: "major", StartedAt: at,
			Components: []delivery.Component{{ID: "c1", Name: "Berth API"}, {ID: "c2", Name: "Tides"}},
		},
		Update: delivery.Update{ID: "u", Status: "investigating", Message: "We look into it.\n\n<b>Not bold</b> & = plain.", CreatedAt: at},
	}
}

// parse reads a message as a mail client does.
func parse(t testing.TB, text []byte) *netmail.Message {
	t.Helper()
	m, err := netmail.ReadMessage(bytes.NewReader(text))
	testkit.Must(t, err)
	return m
}
