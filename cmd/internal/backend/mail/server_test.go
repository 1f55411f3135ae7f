package mail_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/mail"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

const (
	smtpUser     = "backend-user"
	smtpPassword = "correct horse battery staple"
)

// A server is a real SMTP server on the loopback interface.
type server struct {
	address string

	mu         sync.Mutex
	received   []received
	rcpt, data *smtp.SMTPError // replies; nil accepts
	mechanisms []string
	implicit   bool            // TLS
	hang       <-chan struct{} // until its end, if it is set
}

// A received message has the envelope and the bytes.
type received struct {
	from, to string
	text     []byte
	secure   bool
	user     string
}

// start starts a server until the end of the test.
func start(t testing.TB, change ...func(*smtp.Server, *server)) *server {
	t.Helper()
	s := &server{}
	backend := smtp.NewServer(s)
	backend.Domain, backend.ErrorLog = "smtp.example", silent{}
	for _, f := range change {
		f(backend, s)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	s.address = listener.Addr().String()
	if s.implicit {
		listener = tls.NewListener(listener, backend.TLSConfig)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = backend.Serve(listener) }) // ends by Close
	t.Cleanup(func() {
		_ = backend.Close() // does not close the listener if Serve has not begun
		_ = listener.Close()
		serving.Wait()
	})
	return s
}

// silent discards the log of a server.
type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// certificate returns the TLS configuration of a server for 127.0.0.1, and the authority of its certificate.
func certificate() (*tls.Config, *x509.CertPool) {
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	roots := x509.NewCertPool()
	roots.AddCert(https.Certificate())
	return &tls.Config{Certificates: https.TLS.Certificates, MinVersion: tls.VersionTLS12}, roots
}

func (s *server) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{server: s, conn: c}, nil
}

func (s *server) messages() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

// only returns the only message.
func (s *server) only(t testing.TB) received {
	t.Helper()
	all := s.messages()
	if len(all) != 1 {
		t.Fatalf("%d messages", len(all))
	}
	return all[0]
}

type session struct {
	server  *server
	conn    *smtp.Conn
	current received
	user    string
}

func (s *session) Reset() { s.current = received{} }

func (s *session) Logout() error { return nil }

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.current.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.current.to != "" {
		return errors.New("a second recipient")
	}
	s.current.to = to
	return reply(s.server.rcpt)
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if s.server.hang != nil {
		<-s.server.hang
	}
	if s.server.data != nil {
		return s.server.data
	}
	s.current.text, s.current.user = text, s.user
	_, s.current.secure = s.conn.TLSConnectionState()
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.received = append(s.server.received, s.current)
	return nil
}

// reply avoids an error that is a nil pointer.
func reply(err *smtp.SMTPError) error {
	if err == nil {
		return nil
	}
	return err
}

func (s *session) AuthMechanisms() []string { return s.server.mechanisms }

func (s *session) Auth(string) (sasl.Server, error) {
	check := func(user, password string) error {
		if user != smtpUser || password != smtpPassword {
			// Some servers repeat what the client sent.
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "refused: " + user + "/" + password}
		}
		s.user = user
		return nil
	}
	return sasl.NewPlainServer(func(_, user, password string) error { return check(user, password) }), nil
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
