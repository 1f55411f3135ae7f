package wiring

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"opsgate/gateway"
)

// adminGrace is how long requests of the admin listener, for example a scrape, may continue after
// the public listener has ended.
const adminGrace = time.Second

// Run serves until ctx ends, then drains, and releases all resources. It returns an error if a part
// failed while it served, or if requests had to be cut off. It may be called once.
func (g *Gateway) Run(ctx context.Context) error {
	// The background tasks outlast ctx, because requests are served until the drain has ended.
	taskCtx, stopTasks := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTasks()
	tasks, failedCtx := errgroup.WithContext(taskCtx)
	for _, task := range g.tasks {
		// Tasks get no failedCtx: if one fails, the others run until the drain has ended.
		tasks.Go(func() error { return task(taskCtx) })
	}
	// Refunds end after the requests, and the limiter after the refunds.
	refundCtx, stopRefunds := context.WithCancel(taskCtx)
	defer stopRefunds()
	refunded := make(chan error, 1)
	go func() { refunded <- g.refunds.Run(refundCtx) }()
	reloadCtx, stopReloads := context.WithCancel(ctx) // reloads end when the shutdown starts
	defer stopReloads()
	tasks.Go(func() error { return g.reloader.run(reloadCtx) })
	tasks.Go(func() error { return g.public.Serve(g.api) })
	tasks.Go(func() error { return g.admin.Serve(g.pages) })
	g.pages.Serving()
	g.logger.Info("serving", slog.String("version", g.version),
		slog.String("config_version", g.active.snapshot.Load().version),
		slog.String("listen", g.Address().String()), slog.String("admin_listen", g.AdminAddress().String()))
	g.notifier.Serving()

	select {
	case <-ctx.Done():
	case <-failedCtx.Done():
	}
	stopReloads()
	err := g.drain(failedCtx)
	stopRefunds()
	err = errors.Join(<-refunded, err)
	stopTasks()
	err = errors.Join(tasks.Wait(), err, g.opened.close())
	g.logger.Info("stopped")
	return err
}

// drain reports that the gateway drains, and serves for the drain wait. If failedCtx ends, because
// a part failed, it does not wait. Then it ends the public listener, whose requests have the grace
// period to end, and the admin listener.
func (g *Gateway) drain(failedCtx context.Context) error {
	g.pages.Draining()
	g.public.Drain()
	shutdown := g.active.snapshot.Load().loaded.Shutdown
	g.notifier.Draining(time.Duration(shutdown.DrainWait) + time.Duration(shutdown.Grace) + adminGrace +
		gateway.RefundFlushTimeout)
	g.logger.Info("draining", slog.String("wait", shutdown.DrainWait.String()),
		slog.String("grace", shutdown.Grace.String()))
	wait := time.NewTimer(time.Duration(shutdown.DrainWait))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-failedCtx.Done():
	}
	publicCtx, cancelPublic := context.WithTimeout(failedCtx, time.Duration(shutdown.Grace))
	defer cancelPublic()
	err := g.public.ShutDown(publicCtx)

	adminCtx, cancelAdmin := context.WithTimeout(context.WithoutCancel(failedCtx), adminGrace)
	defer cancelAdmin()
	_ = g.admin.ShutDown(adminCtx) // a profile in progress is not an error
	return err
}
