package mail_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/mail"
)

// replies returns a hook that returns one error at each call, and then none.
func replies(errs ...*smtp.SMTPError) func() error {
	return func() error {
		if len(errs) == 0 {
			return nil
		}
		first := errs[0]
		errs = errs[1:]
		return first
	}
}

func reply(code int, text string) *smtp.SMTPError {
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
		{"unknown recipient", reply(550, "no such user"), nil, delivery.Permanent, "RCPT TO command: 550 no such user"},
		{"full mailbox", reply(550, "5.2.2 over quota"), nil, delivery.Permanent, "5.2.2 over quota"},
		{"relay without rights", reply(550, "5.7.1 Unable to relay"), nil, delivery.Again, "5.7.1 Unable to relay"},
		{"refused domain of the sender", reply(550, "5.1.8 not found"), nil, delivery.Again, "5.1.8 not found"},
		{"refused content", nil, reply(554, "spam"), delivery.Permanent, "554 spam"},
		{"greylisting", reply(450, "try later"), nil, delivery.Again, "450 try later"},
		{"full disk", nil, reply(452, "no space"), delivery.Again, "452 no space"},
		{"authentication required", reply(530, "authenticate first"), nil, delivery.Again, "530 authenticate first"},
		{"repeated address", reply(550, "<ada@harbour.example>: user ada unknown"), nil, delivery.Permanent,
			"550 <…@harbour.example>: user … unknown"},
		{"other address", reply(550, "x=bob@harbour.example is (ADA)"), nil, delivery.Permanent, "550 …@harbour.example is (…)"},
		{"control characters", reply(450, "a\x1b[31m\u202eb"), nil, delivery.Again, `450 a\x1b[31m\u202eb`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, func(_ *smtp.Server, s *server) {
				if c.rcpt != nil {
					s.rcpt = replies(c.rcpt)
				}
				if c.data != nil {
					s.data = replies(c.data)
				}
			})
			sender := s.sender(t)
			err := sender.Send(t.Context(), message())
			if err == nil || !strings.HasSuffix(strings.ReplaceAll(err.Error(), `"`, ""), c.want) || delivery.KindOf(err) != c.kind {
				t.Errorf("got %v of kind %d, want %d", err, delivery.KindOf(err), c.kind)
			}
			testkit.Must(t, sender.Send(t.Context(), message()))
			s.only(t)
		})
	}
	if err := (&server{address: "127.0.0.1:1"}).sender(t).Send(t.Context(), message()); delivery.KindOf(err) != delivery.Again {
		t.Errorf("no server: %v", err)
	}
}

// A server that does not reply costs the time limit, or the time until the caller stops.
func TestServerThatHangs(t *testing.T) {
	s := start(t, func(_ *smtp.Server, s *server) { s.hang = t.Context().Done() })
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

func TestSTARTTLS(t *testing.T) {
	serverTLS, clientTLS := certificate()
	offers := func(b *smtp.Server, _ *server) { b.TLSConfig = serverTLS }
	required := func(o *mail.Options) { o.TLS, o.TLSConfig = "", clientTLS }
	t.Run("is used", func(t *testing.T) {
		s := start(t, offers)
		testkit.Must(t, s.sender(t, required).Send(t.Context(), message()))
		if !s.only(t).secure {
			t.Error("sent in plain text")
		}
	})
	t.Run("is required", func(t *testing.T) {
		s := start(t)
		notSent(t, s, s.sender(t, required).Send(t.Context(), message()), "does not support STARTTLS")
	})
	t.Run("needs a valid certificate", func(t *testing.T) {
		s := start(t, offers)
		notSent(t, s, s.sender(t, func(o *mail.Options) { o.TLS = mail.StartTLS }).Send(t.Context(), message()), "failed to verify")
	})
}

func TestImplicitTLS(t *testing.T) {
	serverTLS, clientTLS := certificate()
	implicit := func(b *smtp.Server, _ *server) { b.TLSConfig, b.Domain = serverTLS, implicitTLS }
	s := start(t, implicit)
	testkit.Must(t, s.sender(t, func(o *mail.Options) { o.TLS, o.TLSConfig = mail.ImplicitTLS, clientTLS }).Send(t.Context(), message()))
	if !s.only(t).secure {
		t.Error("sent in plain text")
	}
	s = start(t, implicit)
	notSent(t, s, s.sender(t, func(o *mail.Options) { o.TLS = mail.ImplicitTLS }).Send(t.Context(), message()), "failed to verify")
}

// notSent fails if a message was sent, or the error is permanent or another.
func notSent(t *testing.T, s *server, err error, want string) {
	t.Helper()
	if len(s.messages()) != 0 {
		t.Error("the message was sent")
	}
	if err == nil || delivery.KindOf(err) == delivery.Permanent || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAuthentication(t *testing.T) {
	serverTLS, clientTLS := certificate()
	offers := func(mechanisms ...string) func(*smtp.Server, *server) {
		return func(b *smtp.Server, s *server) { b.TLSConfig, s.mechanisms = serverTLS, mechanisms }
	}
	login := func(password string) func(*mail.Options) {
		return func(o *mail.Options) {
			o.TLS, o.TLSConfig, o.User, o.Password = mail.StartTLS, clientTLS, smtpUser, password
		}
	}
	s := start(t, offers("PLAIN"))
	testkit.Must(t, s.sender(t, login(smtpPassword)).Send(t.Context(), message()))
	if got := s.only(t); got.user != smtpUser {
		t.Errorf("user %q", got.user)
	}
	s = start(t, offers("PLAIN"))
	err := s.sender(t, login("wrong password")).Send(t.Context(), message())
	notSent(t, s, err, "535")
	if text := err.Error(); strings.Contains(text, smtpUser) || strings.Contains(text, "wrong") {
		t.Errorf("the error has credentials: %s", text)
	}
}

func TestInvalidOptions(t *testing.T) {
	for want, change := range map[string]func(*mail.Options){
		"host:port":            func(o *mail.Options) { o.Address = "smtp.example" },
		"TLS mode":             func(o *mail.Options) { o.TLS = "off" },
		"sender's address":     func(o *mail.Options) { o.From = "status" },
		"at least two labels":  func(o *mail.Options) { o.From = "status@localhost" },
		"must be absolute":     func(o *mail.Options) { o.ManageURL = "" },
		"and https except":     func(o *mail.Options) { o.ManageURL = "http://harbour.example/{subscriber}" },
		"with {subscriber}":    func(o *mail.Options) { o.ManageURL = "https://harbour.example/{subscribers}" },
		"of a status page":     func(o *mail.Options) { o.PageURL = "https://{host}/" },
		"ASCII without spaces": func(o *mail.Options) { o.Hello = "a b" },
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

// A password is sent to a server of a network only with TLS. The name of this server is not one of the loopback interface for the library.
func TestPasswordIsNotSentInPlainText(t *testing.T) {
	s := start(t, func(b *smtp.Server, s *server) { b.AllowInsecureAuth, s.mechanisms = true, []string{"PLAIN", "LOGIN"} })
	_, port, err := net.SplitHostPort(s.address)
	testkit.Must(t, err)
	sender := s.sender(t, func(o *mail.Options) { o.Address, o.User, o.Password = "0.0.0.0:"+port, smtpUser, smtpPassword })
	notSent(t, s, sender.Send(t.Context(), message()), "unencrypted connection")
}
