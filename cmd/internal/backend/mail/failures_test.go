package mail_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
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

// The message is sent again, is a dead letter, or bounces: only a mailbox that does not exist does.
func TestRepliesOfTheServer(t *testing.T) {
	for _, c := range []struct {
		name       string
		rcpt, data *smtp.SMTPError
		kind       delivery.Kind
		want       string
	}{
		{"unknown recipient", reply(550, "no such user"), nil, delivery.Bounced, "RCPT TO: 550 no such user"},
		{"unknown recipient, enhanced", reply(550, "5.1.1 no such user"), nil, delivery.Bounced, "RCPT TO: 550 5.1.1 no such user"},
		{"refused recipient", reply(553, "not here"), nil, delivery.Permanent, "RCPT TO: 553 not here"},
		{"full mailbox", reply(550, "5.2.2 over quota"), nil, delivery.Permanent, "RCPT TO: 550 5.2.2 over quota"},
		{"relay without rights", reply(550, "5.7.1 Unable to relay"), nil, delivery.Again, "RCPT TO: 550 5.7.1 Unable to relay"},
		{"blocked relay", reply(554, "5.7.1 client host blocked"), nil, delivery.Again, "RCPT TO: 554 5.7.1 client host blocked"},
		{"refused domain of the sender", reply(550, "5.1.8 not found"), nil, delivery.Again, "RCPT TO: 550 5.1.8 not found"},
		{"refused content", nil, reply(554, "spam"), delivery.Permanent, "DATA: 554 spam"},
		{"greylisting", reply(450, "try later"), nil, delivery.Again, "RCPT TO: 450 try later"},
		{"full disk", nil, reply(452, "no space"), delivery.Again, "DATA: 452 no space"},
		{"shutdown, or about the recipient", reply(421, "bye"), nil, delivery.Again, "RCPT TO: 421 bye"},
		{"authentication required", reply(530, "authenticate first"), nil, delivery.Again, "RCPT TO: 530 authenticate first"},
		{"repeated address", reply(550, "<ada@harbour.example>: user ada unknown"), nil, delivery.Bounced,
			"RCPT TO: 550 <…@harbour.example>: user … unknown"},
		{"other address", reply(550, "x=bob@harbour.example is (ADA)"), nil, delivery.Bounced,
			"RCPT TO: 550 …@harbour.example is (…)"},
		{"refused link", nil, reply(554, "https://links.harbour.example/base/subscriptions/dG9rZW4_-x/unsubscribe is listed"), delivery.Permanent,
			"DATA: 554 https://links.harbour.example/base/subscriptions/…/unsubscribe is listed"},
		{"control characters", reply(450, "a\x1b[31m\u202eb"), nil, delivery.Again, "RCPT TO: 450 a [31mb"},
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
			if err == nil || err.Error() != c.want || delivery.KindOf(err) != c.kind {
				t.Errorf("got %v of kind %d, want %d", err, delivery.KindOf(err), c.kind)
			}
			testkit.Must(t, sender.Send(t.Context(), message()))
			s.only(t)
		})
	}
}

// A relay that accepts no message at all is not a failure of the message.
func TestServerThatAcceptsNoMessage(t *testing.T) {
	for name, replies := range map[string][]string{
		"a refused session": {"554 no"}, "a busy server": {"421 later"}, "no answer to MAIL FROM": {"220 smtp.example", "250 ok"},
		"a sender that is refused for now": {"220 smtp.example", "250 ok", "452 no space", "250 ok"},
	} {
		address := script(t, func(conn net.Conn, lines *bufio.Scanner) {
			for _, reply := range replies {
				fmt.Fprintf(conn, "%s\r\n", reply)
				lines.Scan()
			}
		})
		if err := (&server{address: address}).sender(t).Send(t.Context(), message()); delivery.KindOf(err) != delivery.Relay {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := (&server{address: "127.0.0.1:1"}).sender(t).Send(t.Context(), message())
	if delivery.KindOf(err) != delivery.Relay || !strings.HasPrefix(err.Error(), "connect: dial tcp") {
		t.Errorf("no server: %v", err)
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
		notSent(t, s, s.sender(t, required).Send(t.Context(), message()), "STARTTLS: the server does not offer it")
	})
	t.Run("needs a valid certificate", func(t *testing.T) {
		s := start(t, offers)
		notSent(t, s, s.sender(t, func(o *mail.Options) { o.TLS = mail.StartTLS }).Send(t.Context(), message()), "STARTTLS: tls: failed to verify")
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
	notSent(t, s, s.sender(t, func(o *mail.Options) { o.TLS = mail.ImplicitTLS }).Send(t.Context(), message()), "TLS: tls: failed to verify")
}

// notSent fails if a message was sent, or the error is permanent or another.
func notSent(t *testing.T, s *server, err error, want string) {
	t.Helper()
	if len(s.messages()) != 0 {
		t.Error("the message was sent")
	}
	if err == nil || delivery.KindOf(err) == delivery.Permanent || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s…", err, want)
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
	for _, mechanism := range []string{"PLAIN", "LOGIN"} {
		s := start(t, offers(mechanism))
		testkit.Must(t, s.sender(t, login(smtpPassword)).Send(t.Context(), message()))
		if got := s.only(t); got.user != smtpUser {
			t.Errorf("%s: user %q", mechanism, got.user)
		}
		s = start(t, offers(mechanism))
		err := s.sender(t, login("wrong password")).Send(t.Context(), message())
		notSent(t, s, err, "AUTH: the server refused the user or the password with 535")
		if text := err.Error(); strings.Contains(text, smtpUser) || strings.Contains(text, "wrong") {
			t.Errorf("the error has credentials: %s", text)
		}
	}
	s := start(t, offers("CRAM-MD5"))
	notSent(t, s, s.sender(t, login(smtpPassword)).Send(t.Context(), message()), "AUTH: the server offers neither PLAIN nor LOGIN")
}

// script starts a server for what a real one does not do.
func script(t *testing.T, serve func(conn net.Conn, lines *bufio.Scanner)) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				serve(conn, bufio.NewScanner(conn))
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	return listener.Addr().String()
}

// scripted answers up to the text of one message, and calls end instead of its last reply.
func scripted(conn net.Conn, lines *bufio.Scanner, end func()) {
	say := func(text string) { _, _ = conn.Write([]byte(text + "\r\n")) }
	say("220 smtp.example")
	for lines.Scan() {
		switch verb, _, _ := strings.Cut(lines.Text(), " "); verb {
		case "EHLO", "MAIL", "RCPT":
			say("250 ok")
		case "DATA":
			say("354 go on")
			end()
			return
		}
	}
}

// A server that does not answer costs the time limit. On a slow machine, it may end an earlier step.
func TestServerThatHangs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	greets := func(end func()) func(net.Conn, *bufio.Scanner) {
		return func(conn net.Conn, lines *bufio.Scanner) { scripted(conn, lines, func() { end(); readAll(lines) }) }
	}
	for name, c := range map[string]struct {
		serve  func(net.Conn, *bufio.Scanner)
		limits func(*mail.Options)
		want   error
	}{
		"before its greeting": {
			func(_ net.Conn, lines *bufio.Scanner) { lines.Scan() }, func(o *mail.Options) { o.ConnectTimeout = 300 * time.Millisecond },
			context.DeadlineExceeded,
		},
		"after the message":         {greets(func() {}), func(o *mail.Options) { o.SendTimeout = 300 * time.Millisecond }, context.DeadlineExceeded},
		"until the caller gives up": {greets(cancel), func(*mail.Options) {}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			called := t.Context()
			if errors.Is(c.want, context.Canceled) {
				called = ctx
			}
			err := (&server{address: script(t, c.serve)}).sender(t, c.limits).Send(called, message())
			if err == nil || !strings.HasSuffix(err.Error(), c.want.Error()) || delivery.KindOf(err) == delivery.Permanent {
				t.Errorf("got %v", err)
			}
		})
	}
}

func readAll(lines *bufio.Scanner) {
	for lines.Scan() {
	}
}

// A server that accepts the message and is cut off before its reply gets it again, with the same id.
func TestLostReplyIsNotPermanent(t *testing.T) {
	for _, complete := range []bool{false, true} {
		var mu sync.Mutex
		var ids []string
		address := script(t, func(conn net.Conn, lines *bufio.Scanner) {
			scripted(conn, lines, func() {
				for lines.Scan() && lines.Text() != "." {
					if id, ok := strings.CutPrefix(lines.Text(), " <0199aa00-0000-7000-8000-000000000001"); ok {
						mu.Lock()
						ids = append(ids, id)
						mu.Unlock()
						if !complete {
							return
						}
					}
				}
			})
		})
		sender := (&server{address: address}).sender(t)
		for range 2 {
			err := sender.Send(t.Context(), message())
			if err == nil || delivery.KindOf(err) == delivery.Permanent || !strings.HasPrefix(err.Error(), "DATA: ") {
				t.Errorf("complete %t: got %v", complete, err)
			}
		}
		mu.Lock()
		if len(ids) != 2 || ids[0] != ids[1] {
			t.Errorf("complete %t: ids %q", complete, ids)
		}
		mu.Unlock()
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	s := start(t)
	sender := s.sender(t, func(o *mail.Options) { o.IdleTimeout = time.Millisecond })
	for range 2 {
		testkit.Must(t, sender.Send(t.Context(), message()))
		<-s.ended
	}
}

// A server closes idle connections too.
func TestConnectionThatTheServerClosedIsReplaced(t *testing.T) {
	s := start(t)
	sender := s.sender(t)
	testkit.Must(t, sender.Send(t.Context(), message()))
	s.closeConnections(t)
	testkit.Must(t, sender.Send(t.Context(), message()))
	if messages, sessions := len(s.messages()), s.sessionCount(); messages != 2 || sessions != 2 {
		t.Errorf("%d messages in %d sessions", messages, sessions)
	}
}

func TestCloseEndsSessions(t *testing.T) {
	s := start(t)
	sender := s.sender(t)
	testkit.Must(t, sender.Send(t.Context(), message()))
	sender.Close()
	<-s.ended
	testkit.Must(t, sender.Send(t.Context(), message())) // in progress during Close
	<-s.ended
}

func TestInvalidOptions(t *testing.T) {
	for want, change := range map[string]func(*mail.Options){
		"host:port":            func(o *mail.Options) { o.Address = "smtp.example" },
		"TLS mode":             func(o *mail.Options) { o.TLS = "off" },
		"needs a user":         func(o *mail.Options) { o.Password = smtpPassword },
		"sender's address":     func(o *mail.Options) { o.From = "status" },
		"at least two labels":  func(o *mail.Options) { o.From = "status@localhost" },
		"must be absolute":     func(o *mail.Options) { o.LinksURL = "" },
		"must be https":        func(o *mail.Options) { o.LinksURL = "http://links.harbour.example" },
		"without user, query":  func(o *mail.Options) { o.LinksURL = "https://links.harbour.example?a" },
		"ASCII without spaces": func(o *mail.Options) { o.Hello = "a b" },
	} {
		options := mail.Options{Address: "127.0.0.1:25", From: "status@harbour.example", LinksURL: "http://127.0.0.1:8080"}
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
	notSent(t, s, sender.Send(t.Context(), message()), "AUTH: unencrypted connection")
}
