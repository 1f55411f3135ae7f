package edge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"opsgate/gateway"
)

// adminGrace is how long a scrape or a profile may go on when everything else has ended.
const adminGrace = time.Second

// Run serves until ctx ends, and then drains. It returns nil when it could end in order: an error says what failed while it
// served, or that requests had to be cut off. It is called once, and leaves nothing behind.
func (e *Edge) Run(ctx context.Context) error {
	// What goes on beside the requests must outlast ctx: requests are served until the drain is over.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	tasks, failed := errgroup.WithContext(background)
	for _, task := range e.parts.background() {
		tasks.Go(func() error { return task(background) })
	}
	// The limiter and the record of demand must outlast the refunds, and the refunds the requests.
	refunding, flush := context.WithCancel(background)
	defer flush()
	refunded := make(chan error, 1)
	go func() { refunded <- e.parts.refunds.Run(refunding) }()
	watching, unwatch := context.WithCancel(ctx) // a gateway that ends changes no more
	defer unwatch()
	tasks.Go(func() error { return e.reloader.watch(watching) })
	tasks.Go(e.public.serve)
	tasks.Go(e.admin.serve)
	e.parts.admin.Serving()
	e.logger.Info("serving", slog.String("version", e.parts.current.Load().version),
		slog.String("listen", e.Address().String()), slog.String("admin_listen", e.AdminAddress().String()))
	e.lifecycle.Serving()

	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	unwatch()
	err := e.drain(failed)
	flush()
	err = errors.Join(<-refunded, err)
	stop()
	err = errors.Join(tasks.Wait(), err, e.parts.close())
	e.logger.Info("stopped")
	return err
}

// drain ends the serving. When something has failed, nobody is asked to wait.
func (e *Edge) drain(failed context.Context) error {
	e.parts.admin.Draining()
	e.public.drain()
	bounds := e.parts.current.Load().loaded.Shutdown
	e.lifecycle.Draining(time.Duration(bounds.DrainWait) + time.Duration(bounds.Grace) + adminGrace + gateway.RefundFlushTimeout)
	e.logger.Info("draining", slog.String("wait", bounds.DrainWait.String()), slog.String("grace", bounds.Grace.String()))
	wait := time.NewTimer(time.Duration(bounds.DrainWait))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-failed.Done():
	}
	grace, cancel := context.WithTimeout(failed, time.Duration(bounds.Grace))
	defer cancel()
	err := e.public.shutDown(grace)

	last, cancelLast := context.WithTimeout(context.WithoutCancel(failed), adminGrace)
	defer cancelLast()
	_ = e.admin.shutDown(last) // a profile that nobody reads to its end holds up nothing
	return err
}
