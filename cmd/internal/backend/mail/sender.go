package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"opsgate/cmd/internal/backend/delivery"
)

// A TLSMode is how connections to the SMTP server are encrypted.
type TLSMode string

// Modes of TLS. With the first two, nothing is sent to a server without a valid certificate.
const (
	// StartTLS upgrades each connection by STARTTLS, usually on port 587, and fails if the server does not offer it.
	StartTLS TLSMode = "starttls"
	// ImplicitTLS begins each connection with TLS, usually on port 465.
	ImplicitTLS TLSMode = "tls"
	// NoTLS sends messages in plain text, for a server on the same machine.
	NoTLS TLSMode = "none"
)

// Defaults of the options.
const (
	defaultConnectTimeout = 10 * time.Second
	defaultSendTimeout    = time.Minute
	defaultIdleTimeout    = 30 * time.Second
)

// Options are the settings of a [Sender].
type Options struct {
	// Address is the host and port of the SMTP server.
	Address string
	// TLS is StartTLS if empty.
	TLS TLSMode
	// TLSConfig holds the certificate authorities; nil means those of the system. Its ServerName is the host of Address if empty.
	TLSConfig *tls.Config
	// User and Password authenticate at the server by PLAIN or LOGIN, only with TLS or on the loopback interface. Without User there is
	// no authentication.
	User, Password string
	// From is the sender: an address, with a display name if wanted.
	From string
	// Hello is the name in EHLO; the name of the machine if empty.
	Hello string
	// LinksURL is the public base URL of package links, https except on the loopback interface. It is required: a subscription cannot be
	// confirmed without it, and receivers treat bulk mail without List-Unsubscribe as spam.
	LinksURL string
	// PageURL is the URL of a status page, in which {hostname}, {slug} and {id} are replaced; without it, emails do not link to the page.
	PageURL string
	// ConnectTimeout bounds connecting, the TLS handshake and authentication together; 0 means 10 s.
	ConnectTimeout time.Duration
	// SendTimeout bounds one call of Send; 0 means a minute. A server that is slower may get the message twice.
	SendTimeout time.Duration
	// IdleTimeout is the time after which an unused connection is closed; 0 means 30 s.
	IdleTimeout time.Duration
}

// A Sender sends email. It opens as many connections as there are concurrent calls of Send, and uses them for further messages.
type Sender struct {
	options      Options
	host         string // of the SMTP server
	from         *netmail.Address
	links        *url.URL
	incident     body
	confirmation body

	mu      sync.Mutex
	closed  bool
	idle    []*connection  // the last used one is last
	closing sync.WaitGroup // idle connections that are being closed
}

var _ delivery.Sender = (*Sender)(nil)

// New returns a sender. It does not connect. Its errors name the option that is not valid.
func New(o Options) (*Sender, error) {
	s := &Sender{incident: parseBody("incident"), confirmation: parseBody("confirmation")}
	var err error
	if s.host, _, err = net.SplitHostPort(o.Address); err != nil || s.host == "" {
		return nil, errors.New("the address of the SMTP server must be host:port")
	}
	if s.from, err = parseFrom(o.From); err != nil {
		return nil, err
	}
	if s.links, err = parseLinks(o.LinksURL); err != nil {
		return nil, err
	}
	if err := checkPageURL(o.PageURL); err != nil {
		return nil, err
	}
	switch o.TLS = cmp.Or(o.TLS, StartTLS); o.TLS {
	case StartTLS, ImplicitTLS, NoTLS:
	default:
		return nil, fmt.Errorf("the TLS mode of the SMTP server must be %s, %s or %s", StartTLS, ImplicitTLS, NoTLS)
	}
	if o.User == "" && o.Password != "" {
		return nil, errors.New("a password for the SMTP server needs a user")
	}
	if o.Hello, err = helloName(o.Hello); err != nil {
		return nil, err
	}
	o.TLSConfig = o.tlsConfig(s.host)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, defaultConnectTimeout)
	o.SendTimeout = cmp.Or(o.SendTimeout, defaultSendTimeout)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, defaultIdleTimeout)
	s.options = o
	return s, nil
}

func parseFrom(text string) (*netmail.Address, error) {
	from, err := netmail.ParseAddress(text)
	if err != nil {
		return nil, errors.New("the sender's address must be an email address, or `Name <address>`")
	}
	if err := CheckAddress(bare(from)); err != nil {
		return nil, fmt.Errorf("the sender's address: %w", err)
	}
	return from, nil
}

func parseLinks(text string) (*url.URL, error) {
	links, err := url.Parse(text)
	if err != nil || links.Host == "" || links.User != nil || links.RawQuery != "" || links.Fragment != "" {
		return nil, errors.New("the URL of the links in emails must be absolute, without user, query and fragment")
	}
	if links.Scheme != "https" && (links.Scheme != "http" || !IsLoopback(links.Hostname())) {
		return nil, errors.New("the URL of the links in emails must be https, except on the loopback interface")
	}
	return links, nil
}

func checkPageURL(template string) error {
	location, err := url.Parse(pageURL(template, delivery.Page{ID: "id", Hostname: "page.example", Slug: "slug"}))
	if template != "" && (err != nil || location.Host == "" || location.Scheme != "https" && location.Scheme != "http" ||
		strings.ContainsAny(location.String(), "{}") || strings.Contains(location.String(), "%7B")) {
		return errors.New("the URL of a status page must be absolute, with {hostname}, {slug} or {id} where these belong")
	}
	return nil
}

// pageURL returns the URL of a status page.
func pageURL(template string, p delivery.Page) string {
	return strings.NewReplacer(
		"{hostname}", url.PathEscape(p.Hostname), "{slug}", url.PathEscape(p.Slug), "{id}", url.PathEscape(p.ID),
	).Replace(template)
}

// IsLoopback reports whether a host is this machine, so that a connection needs no TLS.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func helloName(name string) (string, error) {
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("look up the name of the machine for EHLO: %w", err)
		}
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("the name in EHLO must be ASCII without spaces")
	}
	return name, nil
}

func (o Options) tlsConfig(host string) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLSConfig != nil {
		config = o.TLSConfig.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = host
	}
	return config
}

// An email is an encoded message and its only recipient.
type email struct {
	to        *netmail.Address
	linkToken string // a secret that text contains
	text      []byte
}

// Send sends the message. A failure is [delivery.Permanent] if the server refuses the recipient or the message with a 5xx reply, or if
// the address or the event is not valid. Any other failure, also of authentication and of TLS, can be repaired and is not permanent. If
// the connection is lost after the message was sent and before the reply, the server may have accepted it: the next attempt sends the
// same Message-ID.
func (s *Sender) Send(ctx context.Context, m delivery.Message) error {
	e, err := s.compose(m)
	if err != nil {
		return &delivery.Failure{Kind: delivery.Permanent, Reason: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.SendTimeout)
	defer cancel()
	if c := s.take(); c != nil {
		unused, err := s.transact(ctx, c, e)
		if !unused || ctx.Err() != nil {
			return s.describe(err, e)
		}
		// The server closed the connection while it was idle.
	}
	c, err := s.connect(ctx)
	if err != nil {
		return s.describe(err, e)
	}
	_, err = s.transact(ctx, c, e)
	return s.describe(err, e)
}

// transact sends one message over a connection, and then keeps the connection if the session can continue, or closes it. It returns true
// if the connection was of no use: the session cannot continue, and the server has no part of the message.
func (s *Sender) transact(ctx context.Context, c *connection, e email) (unused bool, err error) {
	started := false
	err = c.during(ctx, func() error {
		started, err = c.send(s.from, e)
		return err
	})
	if !c.usable {
		c.abort()
		return !started, err
	}
	if !s.keep(c) {
		c.quit()
	}
	return false, err
}
