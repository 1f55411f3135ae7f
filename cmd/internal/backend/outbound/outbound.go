// Package outbound delivers the notifications of a backend to the subscribers of status pages. It connects the dispatcher with the senders
// of emails and webhooks.
package outbound

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/mail"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/webhook"
)

// Options are the settings of an Outbound. Backend and Logger are required.
type Options struct {
	Backend *service.Backend
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
	// Mail sends emails; nil leaves them waiting.
	Mail           *mail.Options
	Webhook        webhook.Options
	Logger         *slog.Logger
	Registerer     prometheus.Registerer // nil means no metrics
	TracerProvider trace.TracerProvider  // nil means no spans
}

// An Outbound delivers the notifications of a backend.
type Outbound struct {
	dispatcher *delivery.Dispatcher
	mail       *mail.Sender // nil for none
}

// New returns an Outbound, or an error for settings that cannot work. It does not connect.
func New(o Options) (*Outbound, error) {
	out := new(Outbound)
	senders := map[string]delivery.Sender{delivery.Webhook: webhook.New(o.Webhook)}
	if o.Mail == nil {
		o.Logger.Warn("emails wait, because no SMTP server is configured")
	} else {
		var err error
		if out.mail, err = mail.New(*o.Mail); err != nil {
			return nil, fmt.Errorf("configure emails: %w", err)
		}
		senders[delivery.Email] = out.mail
	}
	out.dispatcher = delivery.New(o.Backend.Store(), delivery.Options{
		Senders: senders, Clock: o.Clock, Logger: o.Logger, Wake: o.Backend.Written,
		Registerer: o.Registerer, TracerProvider: o.TracerProvider,
	})
	return out, nil
}

// Run delivers until ctx ends and attempts in progress have ended, or a few seconds later. It may be called once.
func (o *Outbound) Run(ctx context.Context) error {
	if o.mail != nil {
		defer o.mail.Close()
	}
	return o.dispatcher.Run(ctx)
}
