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
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

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

const defaultTimeout = 30 * time.Second

// Options are the settings of a [Sender].
type Options struct {
	// Address is the host and port of the SMTP server.
	Address string
	// TLS is StartTLS if empty.
	TLS TLSMode
	// TLSConfig holds the certificate authorities; nil means those of the system. Its ServerName is the host of Address if empty.
	TLSConfig *tls.Config
	// User and Password authenticate at the server, in plain text only with TLS or on the loopback interface. Without User there is no
	// authentication.
	User, Password string
	// From is the sender: an address, with a display name if wanted.
	From string
	// Hello is the name in EHLO; the name of the machine if empty.
	Hello string
	// ManageURL is where a subscriber changes or ends a subscription, https except on the loopback interface. {subscriber} and {page} are
	// replaced by ids. It is required: receivers treat bulk mail without List-Unsubscribe as spam.
	ManageURL string
	// PageURL is the URL of a status page, in which {hostname}, {slug} and {id} are replaced; without it, emails do not link to the page.
	PageURL string
	// Timeout bounds one call of Send; 0 means 30 s. A server that is slower may get the message twice.
	Timeout time.Duration
}

// A Sender sends email, each message over a connection of its own.
type Sender struct {
	options Options
	client  []gomail.Option
	host    string // of the SMTP server
	from    *netmail.Address
	body    body
}

var _ delivery.Sender = (*Sender)(nil)

// New returns a sender. It does not connect. Its errors name the option that is not valid.
func New(o Options) (*Sender, error) {
	host, port, err := net.SplitHostPort(o.Address)
	number, invalid := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || invalid != nil {
		return nil, errors.New("the address of the SMTP server must be host:port")
	}
	from, err := parseFrom(o.From)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkManageURL(o.ManageURL), checkPageURL(o.PageURL)); err != nil {
		return nil, err
	}
	if o.Hello, err = helloName(o.Hello); err != nil {
		return nil, err
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.TLSConfig = o.tlsConfig(host)
	s := &Sender{options: o, host: host, from: from, body: parseBody()}
	// Addresses and header fields are ASCII, and a connection has one message.
	s.client = []gomail.Option{
		gomail.WithPort(int(number)), gomail.WithHELO(o.Hello), gomail.WithTimeout(o.Timeout), gomail.WithTLSConfig(o.TLSConfig),
		gomail.WithoutSMTPUTF8(), gomail.WithoutNoop(),
	}
	switch cmp.Or(o.TLS, StartTLS) {
	case StartTLS:
		s.client = append(s.client, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case ImplicitTLS, NoTLS: // dial begins with TLS
		s.client = append(s.client, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		return nil, fmt.Errorf("the TLS mode of the SMTP server must be %s, %s or %s", StartTLS, ImplicitTLS, NoTLS)
	}
	if o.User != "" {
		s.client = append(s.client, gomail.WithUsername(o.User), gomail.WithPassword(o.Password),
			gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthPlain, gomail.SMTPAuthLogin))
	}
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

// bare returns an address without a display name, with its quotes.
func bare(a *netmail.Address) string {
	return strings.Trim((&netmail.Address{Address: a.Address}).String(), "<>")
}

func checkManageURL(template string) error {
	location, valid := parseURL(manageURL(template, delivery.Message{}))
	if !valid || location.Scheme != "https" && !IsLoopback(location.Hostname()) {
		return errors.New("the URL to manage subscriptions must be absolute, and https except on the loopback interface, " +
			"with {subscriber} and {page} where these belong")
	}
	return nil
}

func checkPageURL(template string) error {
	example := delivery.Page{ID: "id", Hostname: "page.example", Slug: "slug"}
	if _, valid := parseURL(pageURL(template, example)); !valid && template != "" {
		return errors.New("the URL of a status page must be absolute, with {hostname}, {slug} or {id} where these belong")
	}
	return nil
}

// parseURL reports whether a URL from a template is absolute and has nothing left to replace.
func parseURL(text string) (*url.URL, bool) {
	location, err := url.Parse(text)
	return location, err == nil && location.Host != "" && location.User == nil &&
		(location.Scheme == "https" || location.Scheme == "http") && !strings.ContainsAny(text, "{}<> ")
}

// pageURL returns the URL of a status page.
func pageURL(template string, p delivery.Page) string {
	return strings.NewReplacer(
		"{hostname}", url.PathEscape(p.Hostname), "{slug}", url.PathEscape(p.Slug), "{id}", url.PathEscape(p.ID),
	).Replace(template)
}

// manageURL returns the URL where the subscriber of a message changes the subscription. It has only ids, so that it fits into a header.
func manageURL(template string, m delivery.Message) string {
	return strings.NewReplacer("{subscriber}", url.PathEscape(m.Subscriber.ID), "{page}", url.PathEscape(m.Page.ID)).Replace(template)
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
	config.ServerName = cmp.Or(config.ServerName, host)
	return config
}

// Send sends the message. A failure is [delivery.Permanent] if the server refuses the recipient or the message with a 5xx reply, or if
// the address or the event is not valid. Any other failure, also of authentication and of TLS, can be repaired and is not permanent. If
// the connection is lost after the message was sent and before the reply, the server may have accepted it: the next attempt sends the
// same Message-ID.
func (s *Sender) Send(ctx context.Context, m delivery.Message) error {
	msg, err := s.compose(m)
	if err != nil {
		return &delivery.Failure{Kind: delivery.Permanent, Reason: err.Error()}
	}
	limited, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	client, err := gomail.NewClient(s.host, append(slices.Clip(s.client), gomail.WithDialContextFunc(s.dial(limited)))...)
	if err == nil {
		err = client.DialAndSendWithContext(limited, msg)
	}
	if err == nil || msg.IsDelivered() { // the replies to RSET and QUIT do not matter
		return nil
	}
	return s.failure(err, m.Subscriber.Address)
}

// dial returns a function whose connections are closed when ctx ends: the library stops at its end only while it connects, and does not
// close the connections of sessions that fail.
func (s *Sender) dial(ctx context.Context) gomail.DialContextFunc {
	return func(limited context.Context, network, address string) (connection net.Conn, err error) {
		if s.options.TLS == ImplicitTLS {
			connection, err = (&tls.Dialer{Config: s.options.TLSConfig}).DialContext(limited, network, address)
		} else {
			connection, err = new(net.Dialer).DialContext(limited, network, address)
		}
		if err == nil {
			context.AfterFunc(ctx, func() { _ = connection.Close() })
		}
		return connection, err
	}
}
