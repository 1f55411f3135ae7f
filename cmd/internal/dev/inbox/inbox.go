package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Options are the settings of an inbox. All of them are optional.
type Options struct {
	// Address is where the page listens; "" for a free port of 127.0.0.1. The SMTP server takes a free port of the same host.
	Address string
	// Clock returns the time of arrival of a message; nil for time.Now.
	Clock func() time.Time
	// Lookup resolves the names of hosts that are not under .example; nil for the resolver of the system.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// SlowFor is the time after which a slow receiver responds; 0 for three seconds.
	SlowFor time.Duration
}

// defaultSlowFor is well below the time that senders wait for a response.
const defaultSlowFor = 3 * time.Second

// A System is the system whose messages the inbox receives. All fields are required.
type System struct {
	// Subscribers returns the subscribers with the channel, "email" or "webhook", and the address.
	Subscribers func(ctx context.Context, channel, address string) ([]Subscriber, error)
	// Links serves the links of emails, whose paths begin with /subscriptions/.
	Links http.Handler
	// Metrics are served at /metrics.
	Metrics prometheus.Gatherer
	Logger  *slog.Logger
	// Documentation is the URL of the API's documentation.
	Documentation string
	// Example is a command that causes messages.
	Example string
}

// A Subscriber is a subscriber of a status page.
type Subscriber struct {
	Page     string // the name of the page
	Hostname string // of the page
	// Secrets are the valid keys of a webhook's signatures, newest first.
	Secrets [][]byte
}

// An Inbox has open listeners. Run serves them.
type Inbox struct {
	options Options
	page    net.Listener
	mail    net.Listener
	box     *box
}

// Listen opens the listeners. It refuses an address that is not on loopback.
func Listen(ctx context.Context, o Options) (*Inbox, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Lookup == nil {
		o.Lookup = net.DefaultResolver.LookupNetIP
	}
	o.SlowFor = cmp.Or(o.SlowFor, defaultSlowFor)
	o.Address = cmp.Or(o.Address, "127.0.0.1:0")
	address, err := net.ResolveTCPAddr("tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for the inbox: %w", err)
	}
	if !address.IP.IsLoopback() {
		return nil, fmt.Errorf("listen for the inbox: %s is not a loopback address", o.Address)
	}
	var config net.ListenConfig
	page, err := config.Listen(ctx, "tcp", address.String())
	if err != nil {
		return nil, fmt.Errorf("listen for the inbox: %w", err)
	}
	mail, err := config.Listen(ctx, "tcp", (&net.TCPAddr{IP: address.IP}).String())
	if err != nil {
		return nil, fmt.Errorf("listen for emails: %w", errors.Join(err, page.Close()))
	}
	return &Inbox{options: o, page: page, mail: mail, box: newBox()}, nil
}

// URL returns the URL of the page, without a slash at the end.
func (i *Inbox) URL() string { return "http://" + i.page.Addr().String() }

// SMTPAddress returns the address of the SMTP server, which has no TLS and no authentication.
func (i *Inbox) SMTPAddress() string { return i.mail.Addr().String() }

// Close closes the listeners. Run does so itself.
func (i *Inbox) Close() error { return errors.Join(i.page.Close(), i.mail.Close()) }

// Bounds of connections.
const (
	headerTimeout   = 5 * time.Second
	commandTimeout  = time.Minute
	shutdownTimeout = 2 * time.Second
	maxHeaderBytes  = 64 << 10
)

// Run serves until ctx ends. It closes the listeners.
func (i *Inbox) Run(ctx context.Context, s System) error {
	web := &http.Server{
		Handler: i.handler(s), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return ctx }, // ends the streams of events
		ErrorLog:    slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
	}
	mail := i.mailServer(s)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := web.Serve(i.page); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the inbox: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		if err := mail.Serve(i.mail); err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			return fmt.Errorf("receive emails: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		_ = mail.Close()
		_ = i.mail.Close() // the server does not close it if it has not begun to serve
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if web.Shutdown(stop) != nil {
			_ = web.Close()
		}
		return nil
	})
	return group.Wait()
}
