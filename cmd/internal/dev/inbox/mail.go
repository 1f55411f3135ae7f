package inbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/mail"
	"strings"

	"github.com/emersion/go-smtp"
)

// Bounds of emails.
const (
	maxMailBytes  = 1 << 20
	maxRecipients = 10
)

const email = "email"

// mailServer returns a server that accepts each email.
func (i *Inbox) mailServer(s System) *smtp.Server {
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &mailSession{inbox: i, system: s}, nil
	}))
	server.Domain = "inbox.example"
	server.MaxMessageBytes, server.MaxRecipients = maxMailBytes, maxRecipients
	server.ReadTimeout, server.WriteTimeout = commandTimeout, commandTimeout
	server.EnableSMTPUTF8 = true
	server.ErrorLog = mailLog{s.Logger}
	return server
}

// mailLog writes the errors of connections to a log.
type mailLog struct{ *slog.Logger }

func (l mailLog) Printf(format string, v ...any) {
	l.Debug("a connection to the SMTP server failed", slog.String("error", fmt.Sprintf(format, v...)))
}

func (l mailLog) Println(v ...any) { l.Printf("%s", fmt.Sprint(v...)) }

// A mailSession receives the emails of one connection.
type mailSession struct {
	inbox      *Inbox
	system     System
	recipients []string
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.recipients = append(s.recipients, to)
	return nil
}

// Data keeps one message for each recipient.
func (s *mailSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	for _, to := range s.recipients {
		s.inbox.box.add(s.message(to, raw), func(*message) {})
	}
	return nil
}

func (s *mailSession) Reset() { s.recipients = nil }

func (s *mailSession) Logout() error { return nil }

// message returns the message of a recipient.
func (s *mailSession) message(to string, raw []byte) *message {
	m := &message{raw: raw, Summary: Summary{ReceivedAt: s.inbox.options.Clock(), Channel: email, Address: to}}
	parsed, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		m.Subject = "(not an email: " + err.Error() + ")"
		return m
	}
	m.Subject = decodeHeader(parsed.Header.Get("Subject"))
	id, hostname, _ := strings.Cut(strings.Trim(parsed.Header.Get("Message-Id"), " <>"), "@")
	m.ID = id
	subscribers, err := s.system.Subscribers(context.Background(), email, to)
	if err != nil {
		s.system.Logger.Warn("the subscriber of an email cannot be read", slog.String("error", err.Error()))
	}
	for _, subscriber := range subscribers {
		if subscriber.Hostname == hostname {
			m.Page = subscriber.Page
		}
	}
	return m
}

// decodeHeader decodes the encoded words of a header's value (RFC 2047). A value that cannot be decoded is returned as it is.
func decodeHeader(value string) string {
	decoded, err := new(mime.WordDecoder).DecodeHeader(value)
	if err != nil {
		return value
	}
	return decoded
}
