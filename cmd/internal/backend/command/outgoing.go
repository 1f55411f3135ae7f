package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"opsgate/cmd/internal/backend/links"
	"opsgate/cmd/internal/backend/mail"
	"opsgate/cmd/internal/backend/outbound"
	"opsgate/cmd/internal/backend/webhook"
	"opsgate/cmd/internal/kit/buildinfo"
	"opsgate/cmd/internal/kit/commandline"
)

// outgoing are the flags of serve for what is sent to the subscribers of status pages.
type outgoing struct {
	SMTP, SMTPUser, SMTPPasswordFile string
	SMTPTLS                          mail.TLSMode
	MailFrom, PageURL                string

	LinksURL, LinksListen string
	LinksTrustedProxies   networks

	AllowHTTPWebhooks, NoDelivery bool
}

func (o *outgoing) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.SMTP, "smtp", "", "`ADDR` of the SMTP server, host:port. Without it, emails wait")
	commandline.Enum(flags, &o.SMTPTLS, "smtp-tls", mail.StartTLS, "starttls, tls or none", mail.StartTLS, mail.ImplicitTLS, mail.NoTLS)
	flags.StringVar(&o.SMTPUser, "smtp-user", "", "`NAME` of the user at the SMTP server")
	flags.StringVar(&o.SMTPPasswordFile, "smtp-password-file", "", "`FILE` with the password of the user")
	flags.StringVar(&o.MailFrom, "mail-from", "", "`ADDR` of the sender of emails: 'Harbour <status@harbour.example>'")
	flags.StringVar(&o.PageURL, "page-url", "https://{hostname}/",
		"`URL` of a status page, with {hostname}, {slug} or {id}, to which emails link; empty for no link")
	flags.StringVar(&o.LinksURL, "links-url", "", "public `URL` below which emails link to confirm and unsubscribe")
	flags.StringVar(&o.LinksListen, "links-listen", "", "`ADDR` of the pages that these links open; plain HTTP, for a proxy with TLS")
	commandline.Text(flags, &o.LinksTrustedProxies, "links-trusted-proxies", "",
		"`NETWORKS` of proxies in front of these pages, whose X-Forwarded-For has the client")
	flags.BoolVar(&o.AllowHTTPWebhooks, "allow-http-webhooks", false,
		"webhooks also over http, and to private addresses. For demos and tests")
	flags.BoolVar(&o.NoDelivery, "no-delivery", false, "deliver nothing, because another process on the data directory does")
}

// networks are separated by commas.
type networks []netip.Prefix

// UnmarshalText implements [encoding.TextUnmarshaler]. It appends, so that the flag can be repeated.
func (n *networks) UnmarshalText(text []byte) error {
	for part := range strings.SplitSeq(string(text), ",") {
		network, err := netip.ParsePrefix(part)
		if err != nil {
			return err
		}
		*n = append(*n, network)
	}
	return nil
}

// check returns an error for settings that need each other. The form of the values is checked when they are used.
func (o outgoing) check() error {
	var problems []error
	add := func(wrong bool, text string) {
		if wrong {
			problems = append(problems, errors.New(text))
		}
	}
	mailed := o.SMTP != ""
	host, _, err := net.SplitHostPort(o.SMTP)
	add(mailed && err != nil, "--smtp needs a host and a port")
	add(mailed && o.MailFrom == "", "--smtp needs --mail-from")
	add(mailed && o.LinksURL == "", "--smtp needs --links-url")
	add(!mailed && o.MailFrom != "", "--mail-from needs --smtp")
	add(!mailed && o.SMTPUser != "", "--smtp-user needs --smtp")
	add((o.SMTPUser == "") != (o.SMTPPasswordFile == ""), "--smtp-user and --smtp-password-file need each other")
	add(o.SMTPUser != "" && o.SMTPTLS == mail.NoTLS && !mail.IsLoopback(host), "--smtp-user needs TLS: the password would be readable")
	add(len(o.LinksTrustedProxies) > 0 && o.LinksListen == "", "--links-trusted-proxies needs --links-listen")
	add(o.NoDelivery && mailed, "--no-delivery excludes --smtp")
	return errors.Join(problems...)
}

// password returns the password of the SMTP user, or "" without one.
func (o outgoing) password() (string, error) {
	if o.SMTPPasswordFile == "" {
		return "", nil
	}
	content, err := os.ReadFile(o.SMTPPasswordFile)
	if err != nil {
		return "", fmt.Errorf("read the password of the SMTP user: %w", err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// mail returns the settings of emails, or nil if they wait.
func (o outgoing) mail() (*mail.Options, error) {
	if o.SMTP == "" {
		return nil, nil
	}
	password, err := o.password()
	if err != nil {
		return nil, err
	}
	return &mail.Options{
		Address: o.SMTP, TLS: o.SMTPTLS, User: o.SMTPUser, Password: password, From: o.MailFrom, LinksURL: o.LinksURL,
		PageURL: o.PageURL,
	}, nil
}

// webhook returns the settings of webhooks.
func (o outgoing) webhook() webhook.Options {
	options := webhook.Options{Version: buildinfo.Read().Version}
	if o.AllowHTTPWebhooks {
		options.AllowHTTP, options.DialContext = true, new(net.Dialer).DialContext
	}
	return options
}

// delivery returns the part that delivers notifications, which does nothing in a process that does not deliver.
func (s server) delivery() (func(context.Context) error, error) {
	if !s.delivers() {
		return func(context.Context) error { return nil }, nil
	}
	settings, err := s.Outgoing.mail()
	if err != nil {
		return nil, err
	}
	if s.Outgoing.AllowHTTPWebhooks {
		s.logger.Warn("webhooks may reach internal services: --allow-http-webhooks is for demos and tests")
	}
	out, err := outbound.New(outbound.Options{
		Backend: s.backend, Clock: s.environment.Clock, Mail: settings, Webhook: s.Outgoing.webhook(),
		Logger: s.logger, Registerer: s.registry, TracerProvider: s.traces.TracerProvider(),
	})
	if err != nil {
		return nil, commandline.UsageError{Err: err}
	}
	return out.Run, nil
}

// pages returns what is served over HTTP.
func (s server) pages() (list []page) {
	if s.AdminListen != "" {
		list = append(list, page{name: "admin", address: s.AdminListen, handler: adminPage(s.registry)})
	}
	if s.Outgoing.LinksListen != "" {
		pages := links.New(links.Options{
			Store: s.backend.Store(), Clock: s.environment.Clock, Logger: s.logger, Proxies: s.Outgoing.LinksTrustedProxies,
			Registerer: s.registry,
		})
		list = append(list, page{name: "links", address: s.Outgoing.LinksListen, handler: pages, limit: pages.Limit})
	}
	return list
}
