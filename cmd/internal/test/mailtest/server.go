// Package mailtest has an SMTP server for tests.
package mailtest

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// A Message is what a client sent: the envelope and the bytes.
type Message struct {
	From, To  string
	Text      []byte
	Encrypted bool
	User      string // that authenticated
}

// A Server is an SMTP server on the loopback interface.
type Server struct {
	// Data accepts a message or returns an error, by default of the type [smtp.SMTPError]. It is
	// called by many sessions at once.
	Data func(Message) error
	// Rcpt is the reply to recipients; nil accepts them.
	Rcpt *smtp.SMTPError
	// TLS is offered by STARTTLS, or begins each connection if Implicit; nil is none.
	TLS      *tls.Config
	Implicit bool
	// User and Password authenticate, also in plain text without TLS. They are offered unless
	// empty.
	User, Password string
}

// Start serves until the end of the test, and returns the address.
func (s *Server) Start(t testing.TB) (address string) {
	t.Helper()
	backend := smtp.NewServer(s)
	backend.Domain, backend.AllowInsecureAuth = "smtp.example", true
	backend.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	if s.Implicit {
		listener = tls.NewListener(listener, s.TLS)
	} else {
		backend.TLSConfig = s.TLS
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = backend.Serve(listener) }) // ends by Close
	t.Cleanup(func() {
		_ = backend.Close() // does not close the listener if Serve has not begun
		_ = listener.Close()
		serving.Wait()
	})
	return address
}

// NewSession implements [smtp.Backend].
func (s *Server) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{server: s, conn: c}, nil
}

type session struct {
	server  *Server
	conn    *smtp.Conn
	message Message
	user    string
}

func (s *session) Reset() { s.message = Message{} }

func (*session) Logout() error { return nil }

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.message.From = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.message.To != "" {
		return errors.New("a second recipient")
	}
	s.message.To = to
	if s.server.Rcpt != nil {
		return s.server.Rcpt
	}
	return nil
}

func (s *session) Data(r io.Reader) (err error) {
	if s.message.Text, err = io.ReadAll(r); err != nil {
		return err // the client is gone
	}
	_, s.message.Encrypted = s.conn.TLSConnectionState()
	s.message.User = s.user
	return s.server.Data(s.message)
}

// AuthMechanisms implements [smtp.AuthSession].
func (s *session) AuthMechanisms() []string {
	if s.server.User == "" {
		return nil
	}
	return []string{sasl.Plain}
}

// Auth implements [smtp.AuthSession]. As some servers do, it repeats what the client sent.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.server.User || password != s.server.Password {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8},
				Message: "refused: " + user + "/" + password}
		}
		s.user = user
		return nil
	}), nil
}
