package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"net"
	netmail "net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"
	"time"

	gomail "github.com/wneessen/go-mail"

	"opsgate/cmd/internal/backend/delivery"
)

// A TLSMode is how connections to the SMTP server are encrypted.
type TLSMode string

// Modes of TLS. With the first two, nothing is sent to a server without a valid certificate.
const (
	// StartTLS upgrades each connection by STARTTLS, usually on port 587, and fails if the server
	// does not offer it.
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
	// RootCAs are the certificate authorities; nil means those of the system.
	RootCAs *x509.CertPool
	// User and Password authenticate at the server, in plain text only with TLS or on the loopback
	// interface. Without User there is no authentication.
	User, Password string
	// From is the sender: an address, with a display name if wanted.
	From string
	// ManageURL is where a subscriber changes or ends a subscription. It is required: receivers
	// treat bulk mail without List-Unsubscribe as spam. Both URLs are https except on the loopback
	// interface; {subscriber} and {page} are replaced by ids, and {hostname} and {slug} by those of
	// the page.
	ManageURL string
	// PageURL is the URL of a status page; without it, emails do not link to the page.
	PageURL string
	// Timeout bounds one call of Send; 0 means 30 s. A server that is slower may get the message
	// twice.
	Timeout time.Duration
}

// A Sender sends email, each message over a connection of its own.
type Sender struct {
	options Options
	client  []gomail.Option
	host    string // of the SMTP server
	tls     *tls.Config
	from    *netmail.Address
	domain  string // of the sender's address
	text    *texttemplate.Template
	html    *htmltemplate.Template
}

var _ delivery.Sender = (*Sender)(nil)

// New returns a sender. It does not connect. Its errors name the option that is not valid.
func New(o Options) (*Sender, error) {
	host, port, err := net.SplitHostPort(o.Address)
	number, invalid := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || invalid != nil {
		return nil, errors.New("the address of the SMTP server must be host:port")
	}
	from, err := netmail.ParseAddress(o.From)
	if err != nil {
		return nil, errors.New("the sender's address must be an email address, or `Name <address>`")
	}
	if err := CheckAddress(from.Address); err != nil {
		return nil, fmt.Errorf("the sender's address: %w", err)
	}
	if err := checkURL("to manage subscriptions", o.ManageURL); err != nil {
		return nil, err
	}
	if err := checkURL("of a status page", o.PageURL); err != nil && o.PageURL != "" {
		return nil, err
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	_, domain, _ := strings.Cut(from.Address, "@")
	s := &Sender{
		options: o, host: host, from: from, domain: domain,
		text: texttemplate.Must(texttemplate.ParseFS(templateFiles, "templates/incident.txt")),
		html: htmltemplate.Must(htmltemplate.ParseFS(templateFiles, "templates/incident.html")),
		tls:  &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: o.RootCAs},
	}
	// Addresses and header fields are ASCII, and a connection has one message.
	s.client = []gomail.Option{
		gomail.WithPort(int(number)), gomail.WithTimeout(o.Timeout), gomail.WithTLSConfig(s.tls), gomail.WithoutSMTPUTF8(),
		gomail.WithoutNoop(),
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

// checkURL returns an error if a URL is not absolute and secure, or has something left to replace.
func checkURL(name, template string) error {
	text := expand(template, delivery.Message{Page: delivery.Page{Hostname: "page.example"}})
	location, err := url.Parse(text)
	if err != nil || location.Host == "" || location.User != nil || strings.ContainsAny(text, "{}<> ") ||
		location.Scheme != "https" && (location.Scheme != "http" || !IsLoopback(location.Hostname())) {
		return fmt.Errorf("the URL %s must be absolute, and https except on the loopback interface, "+
			"with {subscriber}, {page}, {hostname} or {slug} where these belong", name)
	}
	return nil
}

// expand replaces what a URL has in braces.
func expand(template string, m delivery.Message) string {
	return strings.NewReplacer(
		"{subscriber}", url.PathEscape(m.Subscriber.ID), "{page}", url.PathEscape(m.Page.ID),
		"{hostname}", url.PathEscape(m.Page.Hostname), "{slug}", url.PathEscape(m.Page.Slug),
	).Replace(template)
}

// IsLoopback reports whether a host is this machine, so that a connection needs no TLS.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Send sends the message. A failure is [delivery.Permanent] if the server refuses the recipient or
// the message with a 5xx reply, or if the address or the event is not valid. Any other failure,
// also of authentication and of TLS, can be repaired and is not permanent. If the connection is
// lost after the message was sent and before the reply, the server may have accepted it: the next
// attempt sends the same Message-ID.
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

// dial returns a function whose connections are closed when ctx ends: the library stops at its end
// only while it connects, and does not close the connections of sessions that fail.
func (s *Sender) dial(ctx context.Context) gomail.DialContextFunc {
	return func(limited context.Context, network, address string) (connection net.Conn, err error) {
		if s.options.TLS == ImplicitTLS {
			connection, err = (&tls.Dialer{Config: s.tls}).DialContext(limited, network, address)
		} else {
			connection, err = new(net.Dialer).DialContext(limited, network, address)
		}
		if err == nil {
			context.AfterFunc(ctx, func() { _ = connection.Close() })
		}
		return connection, err
	}
}
