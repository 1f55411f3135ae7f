package mail_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/mail"
	"opsgate/cmd/internal/test/mailtest"
	"opsgate/internal/testkit"
)

func refuse(code int, text string) *smtp.SMTPError {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: text}
}

// The message is sent again, or is a dead letter.
func TestRepliesOfTheServer(t *testing.T) {
	for _, c := range []struct {
		name       string
		rcpt, data *smtp.SMTPError
		kind       delivery.Kind
		want       string
	}{
		{"unknown recipient", refuse(550, "no such user"), nil, delivery.Permanent, "RCPT TO command: 550 no such user"},
		{"full mailbox", refuse(550, "5.2.2 over quota"), nil, delivery.Permanent, "5.2.2 over quota"},
		{"relay without rights", refuse(550, "5.7.1 Unable to relay"), nil, delivery.Again, "5.7.1 Unable to relay"},
		{"refused domain of the sender", refuse(550, "5.1.8 not found"), nil, delivery.Again, "5.1.8 not found"},
		{"refused content", nil, refuse(554, "spam"), delivery.Permanent, "554 spam"},
		{"greylisting", refuse(450, "try later"), nil, delivery.Again, "450 try later"},
		{"full disk", nil, refuse(452, "no space"), delivery.Again, "452 no space"},
		{"authentication required", refuse(530, "authenticate first"), nil, delivery.Again, "530 authenticate first"},
		{"repeated address", refuse(550, "<ada@harbour.example>: user ada unknown"), nil, delivery.Permanent,
			"550 <…@harbour.example>: user … unknown"},
		{"other address", refuse(550, "x=bob@harbour.example is (ADA)"), nil, delivery.Permanent, "550 …@harbour.example is (…)"},
		{"control characters", refuse(450, "a\x1b[31m\u202eb"), nil, delivery.Again, `450 a\x1b[31m\u202eb`},
	} {
		s := start(t, func(s *mailtest.Server) {
			if s.Rcpt = c.rcpt; c.data != nil {
				s.Data = func(mailtest.Message) error { return c.data }
			}
		})
		err := s.sender(t).Send(t.Context(), message())
		if err == nil || !strings.HasSuffix(strings.ReplaceAll(err.Error(), `"`, ""), c.want) || delivery.KindOf(err) != c.kind {
			t.Errorf("%s: got %v of kind %d, want %d", c.name, err, delivery.KindOf(err), c.kind)
		}
	}
	if err := (&server{address: "127.0.0.1:1"}).sender(t).Send(t.Context(), message()); delivery.KindOf(err) != delivery.Again {
		t.Errorf("no server: %v", err)
	}
}

// A server that does not reply costs the time limit, or the time until the caller stops.
func TestServerThatHangs(t *testing.T) {
	hang := func(mailtest.Message) error { <-t.Context().Done(); return nil }
	s := start(t, func(s *mailtest.Server) { s.Data = hang })
	err := s.sender(t, func(o *mail.Options) { o.Timeout = 300 * time.Millisecond }).Send(t.Context(), message())
	if err == nil || delivery.KindOf(err) != delivery.Again {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if err := s.sender(t).Send(ctx, message()); err == nil || delivery.KindOf(err) != delivery.Again {
		t.Errorf("got %v", err)
	}
}

// A message and a password are sent only as the TLS mode allows. A failure of the session is not
// permanent, and has no credentials.
func TestTLSAndAuthentication(t *testing.T) {
	encrypted, authority := certificate()
	const wrong = "wrong password"
	for name, c := range map[string]struct {
		tls      *tls.Config // of the server
		mode     mail.TLSMode
		roots    *x509.CertPool
		password string // with a user
		want     string // part of the error
	}{
		"STARTTLS is used":                   {encrypted, "", authority, "", ""},
		"STARTTLS is required":               {nil, "", authority, "", "does not support STARTTLS"},
		"STARTTLS needs a valid certificate": {encrypted, mail.StartTLS, nil, "", "failed to verify"},
		"implicit TLS":                       {encrypted, mail.ImplicitTLS, authority, "", ""},
		"it needs a valid certificate":       {encrypted, mail.ImplicitTLS, nil, "", "failed to verify"},
		"password":                           {encrypted, mail.StartTLS, authority, smtpPassword, ""},
		"wrong password":                     {encrypted, mail.StartTLS, authority, wrong, "535"},
		"password in plain text":             {nil, mail.NoTLS, nil, smtpPassword, "unencrypted connection"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(s *mailtest.Server) {
				s.TLS, s.Implicit, s.User, s.Password = c.tls, c.mode == mail.ImplicitTLS, smtpUser, smtpPassword
			})
			err := s.sender(t, func(o *mail.Options) {
				o.TLS, o.RootCAs, o.Password = c.mode, c.roots, c.password
				if c.password != "" {
					o.User = smtpUser
				}
				if c.mode == mail.NoTLS { // not a name of the loopback interface for the library
					o.Address = strings.Replace(o.Address, "127.0.0.1", "0.0.0.0", 1)
				}
			}).Send(t.Context(), message())
			if c.want == "" {
				testkit.Must(t, err)
				if got := s.only(t); !got.Encrypted || (got.User != "") != (c.password != "") {
					t.Errorf("encrypted: %v, user %q", got.Encrypted, got.User)
				}
				return
			}
			if len(s.messages()) != 0 || err == nil || delivery.KindOf(err) == delivery.Permanent || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d messages, got %v, want %s", len(s.messages()), err, c.want)
			} else if strings.Contains(err.Error(), smtpUser) || strings.Contains(err.Error(), wrong) {
				t.Errorf("the error has credentials: %v", err)
			}
		})
	}
}

func TestInvalidOptions(t *testing.T) {
	for want, change := range map[string]func(*mail.Options){
		"host:port":           func(o *mail.Options) { o.Address = "smtp.example" },
		"TLS mode":            func(o *mail.Options) { o.TLS = "off" },
		"sender's address":    func(o *mail.Options) { o.From = "status" },
		"at least two labels": func(o *mail.Options) { o.From = "status@localhost" },
		"must be absolute":    func(o *mail.Options) { o.ManageURL = "" },
		"and https except":    func(o *mail.Options) { o.ManageURL = "http://harbour.example/{subscriber}" },
		"with {subscriber}":   func(o *mail.Options) { o.ManageURL = "https://harbour.example/{subscribers}" },
		"of a status page":    func(o *mail.Options) { o.PageURL = "https://{host}/" },
	} {
		options := mail.Options{Address: "127.0.0.1:25", From: "status@harbour.example", ManageURL: "http://127.0.0.1:8080"}
		if _, err := mail.New(options); err != nil {
			t.Fatal(err)
		}
		change(&options)
		_, err := mail.New(options)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), smtpPassword) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
