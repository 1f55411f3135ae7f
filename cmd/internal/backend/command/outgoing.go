package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/mail"
	"opsgate/cmd/internal/backend/webhook"
	"opsgate/internal/buildinfo"
	"opsgate/internal/commandline"
)

// outgoing are the flags of serve for what is sent to the subscribers of status pages.
type outgoing struct {
	SMTP, SMTPUser, SMTPPasswordFile string
	SMTPTLS                          mail.TLSMode
	MailFrom, PageURL, ManageURL     string

	AllowHTTPWebhooks, NoDelivery bool
}

func (o *outgoing) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.SMTP, "smtp", "", "`ADDR` of the SMTP server, host:port. Without it, emails wait")
	commandline.Enum(flags, &o.SMTPTLS, "smtp-tls", mail.StartTLS, "starttls, tls or none", mail.StartTLS,
		mail.ImplicitTLS, mail.NoTLS)
	flags.StringVar(&o.SMTPUser, "smtp-user", "", "`NAME` of the user at the SMTP server")
	flags.StringVar(&o.SMTPPasswordFile, "smtp-password-file", "", "`FILE` with the password of the user")
	flags.StringVar(&o.MailFrom, "mail-from", "", "`ADDR` of the sender of emails: 'Harbour <status@harbour.example>'")
	flags.StringVar(&o.PageURL, "page-url", "https://{hostname}/",
		"`URL` of a status page, with {hostname}, {slug} or {page}, to which emails link; empty for no link")
	flags.StringVar(&o.ManageURL, "manage-url", "",
		"`URL` where a subscriber unsubscribes, with {subscriber} or {page}, to which emails link")
	flags.BoolVar(&o.AllowHTTPWebhooks, "allow-http-webhooks", false,
		"webhooks also over http, and to private addresses. For demos and tests")
	flags.BoolVar(&o.NoDelivery, "no-delivery", false,
		"deliver nothing, because another process on the data directory does")
}

// check returns an error for settings that need each other. The form of the values is checked when
// they are used.
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
	add(mailed && o.ManageURL == "", "--smtp needs --manage-url")
	add(!mailed && o.MailFrom != "", "--mail-from needs --smtp")
	add(!mailed && o.SMTPUser != "", "--smtp-user needs --smtp")
	add((o.SMTPUser == "") != (o.SMTPPasswordFile == ""), "--smtp-user and --smtp-password-file need each other")
	add(o.SMTPUser != "" && o.SMTPTLS == mail.NoTLS && !mail.IsLoopback(host),
		"--smtp-user needs TLS: the password would be readable")
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

// senders returns the senders by channel. Without an SMTP server, there is none of emails, which
// wait.
func (o outgoing) senders() (map[string]delivery.Sender, error) {
	senders := map[string]delivery.Sender{
		delivery.Webhook: webhook.New(webhook.Options{AllowHTTP: o.AllowHTTPWebhooks, Version: buildinfo.Read().Version}),
	}
	if o.SMTP == "" {
		return senders, nil
	}
	password, err := o.password()
	if err != nil {
		return nil, err
	}
	senders[delivery.Email], err = mail.New(mail.Options{
		Address: o.SMTP, TLS: o.SMTPTLS, User: o.SMTPUser, Password: password, From: o.MailFrom,
		PageURL: o.PageURL, ManageURL: o.ManageURL,
	})
	if err != nil {
		return nil, commandline.UsageError{Err: fmt.Errorf("configure emails: %w", err)}
	}
	return senders, nil
}

// delivery returns the part that delivers notifications, which does nothing in a process that does
// not deliver.
func (s server) delivery() (func(context.Context) error, error) {
	if !s.delivers() {
		return func(context.Context) error { return nil }, nil
	}
	senders, err := s.Outgoing.senders()
	if err != nil {
		return nil, err
	}
	if s.Outgoing.SMTP == "" {
		s.logger.Warn("emails wait, because no SMTP server is configured")
	}
	if s.Outgoing.AllowHTTPWebhooks {
		s.logger.Warn("webhooks may reach internal services: --allow-http-webhooks is for demos and tests")
	}
	return delivery.New(s.backend.Store(), delivery.Options{
		Senders: senders, Clock: s.environment.Clock, Logger: s.logger, Wake: s.backend.Written,
		Registerer: s.registry, TracerProvider: s.traces.TracerProvider(),
	}).Run, nil
}
