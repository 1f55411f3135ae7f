package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	netmail "net/mail"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

// quitTimeout bounds QUIT. The connection is closed without its reply too.
const quitTimeout = time.Second

// A connection is an SMTP session. One goroutine uses it at a time.
type connection struct {
	net    net.Conn
	client *smtp.Client
	usable bool // for a further message
	timer  *time.Timer
}

// connect opens a session: TLS by the options, EHLO, and authentication.
func (s *Sender) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.ConnectTimeout)
	defer cancel()
	var dialer net.Dialer
	plain, err := dialer.DialContext(ctx, "tcp", s.options.Address)
	if err != nil {
		return nil, stepError{"connect", err}
	}
	c := &connection{net: plain}
	if err := c.during(ctx, func() error { return s.open(ctx, c) }); err != nil {
		c.abort()
		return nil, err
	}
	if err := ctx.Err(); err != nil { // its end may have set the deadline
		c.abort()
		return nil, stepError{"connect", err}
	}
	return c, nil
}

func (s *Sender) open(ctx context.Context, c *connection) (err error) {
	transport := c.net
	if s.options.TLS == ImplicitTLS {
		encrypted := tls.Client(c.net, s.options.TLSConfig)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return stepError{"TLS", err}
		}
		transport = encrypted
	}
	if c.client, err = smtp.NewClient(transport, s.host); err != nil {
		return stepError{"greeting", err}
	}
	c.client.SkipSMTPUTF8(true) // addresses and header fields are ASCII
	if err := c.client.Hello(s.options.Hello); err != nil {
		return stepError{"EHLO", err}
	}
	if s.options.TLS == StartTLS {
		if offered, _ := c.client.Extension("STARTTLS"); !offered {
			return stepError{"STARTTLS", errors.New("the server does not offer it")}
		}
		if err := c.client.StartTLS(s.options.TLSConfig); err != nil {
			return stepError{"STARTTLS", err}
		}
	}
	if s.options.User == "" {
		return nil
	}
	return s.authenticate(c)
}

// authenticate sends the user and the password. Its errors contain no text of the server, which could repeat them.
func (s *Sender) authenticate(c *connection) error {
	_, offered := c.client.Extension("AUTH")
	mechanisms := strings.Fields(offered)
	var auth smtp.Auth
	switch user, password := s.options.User, s.options.Password; {
	case slices.Contains(mechanisms, "PLAIN"):
		auth = smtp.PlainAuth("", user, password, s.host, false)
	case slices.Contains(mechanisms, "LOGIN"):
		auth = smtp.LoginAuth(user, password, s.host, false)
	default:
		return stepError{"AUTH", errors.New("the server offers neither PLAIN nor LOGIN")}
	}
	err := c.client.Auth(auth)
	if err == nil {
		return nil
	}
	var network net.Error
	switch reply, isReply := errors.AsType[*textproto.Error](err); {
	case isReply:
		err = fmt.Errorf("the server refused the user or the password with %d", reply.Code)
	case errors.Is(err, smtp.ErrUnencrypted), errors.Is(err, io.EOF), errors.As(err, &network):
	default:
		err = errors.New("the exchange with the server failed")
	}
	return stepError{"AUTH", err}
}

// during runs do, and makes the connection fail when ctx ends, which then is the cause of the error.
func (c *connection) during(ctx context.Context, do func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = c.net.SetDeadline(time.Unix(1, 0)) })
	err := do()
	if stop() {
		return err
	}
	c.usable = false
	if step, ok := errors.AsType[stepError](err); ok {
		return stepError{step.step, ctx.Err()}
	}
	return err
}

// send executes one transaction. Until started, the server has no part of the message.
func (c *connection) send(from *netmail.Address, e email) (started bool, err error) {
	c.usable = false
	path := func(a *netmail.Address) string { return "<" + bare(a) + ">" }
	if err := c.client.Mail(path(from)); err != nil {
		return false, c.refused(stepSender, err)
	}
	if err := c.client.Rcpt(path(e.to)); err != nil {
		return false, c.refused(stepRecipient, err)
	}
	data, err := c.client.Data()
	if err != nil {
		return false, c.refused(stepData, err)
	}
	_, writeErr := data.Write(e.text)
	if err := data.Close(); err != nil { // a reply has the reason of a failed write
		c.usable = isReply(err)
		return true, stepError{stepData, err}
	}
	if writeErr != nil {
		return true, stepError{stepData, writeErr}
	}
	c.usable = true
	return true, nil
}

// refused ends a transaction that the server refused, so that the connection can be used again.
func (c *connection) refused(step string, err error) error {
	c.usable = isReply(err) && c.client.Reset() == nil
	return stepError{step, err}
}

// shuttingDown is the code of a reply to any command, after which the server closes the session.
const shuttingDown = 421

// isReply reports whether the error is a reply of a server that continues the session.
func isReply(err error) bool {
	reply, ok := errors.AsType[*textproto.Error](err)
	return ok && reply.Code != shuttingDown
}

// bare returns an address without a display name, with its quotes.
func bare(a *netmail.Address) string {
	return strings.Trim((&netmail.Address{Address: a.Address}).String(), "<>")
}

// abort closes the connection without QUIT.
func (c *connection) abort() { _ = c.net.Close() }

// quit ends the session.
func (c *connection) quit() {
	_ = c.net.SetDeadline(time.Now().Add(quitTimeout))
	_ = c.client.Quit() // a failure leaves the connection open
	c.abort()
}
