package command

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/mail"
	"opsgate/cmd/internal/backend/webhook"
)

// webhookSecret returns the key that signs what is sent to --webhook, where all demo subscribers
// have one receiver. It is public.
func webhookSecret() []byte {
	secret := sha256.Sum256([]byte("opsdev --webhook"))
	return secret[:]
}

// A printer sends each message of a channel where the flags say, and prints it as one line.
type printer struct {
	channel string
	out     io.Writer
	sender  delivery.Sender // nil to only print
	url     string          // of the only receiver of webhooks; "" for the addresses of the subscribers
}

// Send implements [delivery.Sender]. A message that was not accepted is not printed: the failure is
// logged, and it is sent again.
func (p printer) Send(ctx context.Context, m delivery.Message) error {
	if p.sender != nil {
		sent := m
		if p.url != "" {
			sent.Subscriber.Address, sent.Subscriber.Secrets = p.url, [][]byte{webhookSecret()}
		}
		if err := p.sender.Send(ctx, sent); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintf(p.out, "notification  %s  %s  [%s] %s: %s\n",
		p.channel, m.Subscriber.Address, m.Page.Name, cmp.Or(m.Incident.Title, m.Event), m.Update.Status)
	return nil
}

// senders returns the senders of notifications, which print to out.
func (f *flags) senders(out io.Writer) (map[string]delivery.Sender, error) {
	emails, webhooks := printer{channel: delivery.Email, out: out},
		printer{channel: delivery.Webhook, out: out, url: f.Webhook}
	if f.SMTP != "" {
		sender, err := mail.New(mail.Options{
			Address: f.SMTP, TLS: mail.NoTLS, From: "Status pages <status@harbour.example>",
			ManageURL: "https://status.harbour.example/subscriptions/{subscriber}",
		})
		if err != nil {
			return nil, fmt.Errorf("--smtp: %w", err)
		}
		emails.sender = sender
	}
	if f.Webhook != "" {
		if err := webhook.CheckURL(f.Webhook, true); err != nil {
			return nil, fmt.Errorf("--webhook: %w", err)
		}
		webhooks.sender = webhook.New(webhook.Options{AllowHTTP: true})
	}
	return map[string]delivery.Sender{delivery.Email: emails, delivery.Webhook: webhooks}, nil
}

// notify delivers notifications of the backend until ctx ends.
func (b *backend) notify(ctx context.Context, senders map[string]delivery.Sender, traces trace.TracerProvider) error {
	return delivery.New(b.Store(), delivery.Options{
		Senders: senders, Logger: b.logger.With(slog.String("part", "delivery")), Wake: b.Written, TracerProvider: traces,
	}).Run(ctx)
}
