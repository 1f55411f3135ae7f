package wiring

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"opsgate/gateway"
)

// adminGrace is how long requests of the admin listener, for example a scrape, may continue after the public listener has ended.
const adminGrace = time.Second

// Run serves until ctx ends, then drains, and releases all resources. It returns an error if a part failed while it served, or if requests
// had to be cut off. It may be called once.
func (e *Edge) Run(ctx context.Context) error {
	// The background tasks outlast ctx, because requests are served until the drain has ended.
	taskCtx, stopTasks := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTasks()
	tasks, failed := errgroup.WithContext(taskCtx)
	for _, task := range e.parts.background() {
		tasks.Go(func() error { return task(taskCtx) })
	}
	// Refunds end after the requests, and the limiter and the record of demand after the refunds.
	refundCtx, stopRefunds := context.WithCancel(taskCtx)
	defer stopRefunds()
	refunded := make(chan error, 1)
	go func() { refunded <- e.parts.refunds.Run(refundCtx) }()
	reloadCtx, stopReloads := context.WithCancel(ctx) // reloads end when the shutdown starts
	defer stopReloads()
	tasks.Go(func() error { return e.reloader.watch(reloadCtx) })
	tasks.Go(func() error { return e.parts.public.Serve(e.handler) })
	tasks.Go(func() error { return e.parts.adminServer.Serve(e.parts.admin) })
	e.parts.admin.Serving()
	e.logger.Info("serving", slog.String("version", e.version), slog.String("config_version", e.parts.current.Load().version),
		slog.String("listen", e.Address().String()), slog.String("admin_listen", e.AdminAddress().String()))
	e.lifecycle.Serving()

	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	stopReloads()
	err := e.drain(failed)
	stopRefunds()
	err = errors.Join(<-refunded, err)
	stopTasks()
	err = errors.Join(tasks.Wait(), err, e.parts.close())
	e.logger.Info("stopped")
	return err
}

// drain ends the listeners: the public one after the drain wait, within the grace period. It does not wait if a part has failed.
func (e *Edge) drain(failed context.Context) error {
	e.parts.admin.Draining()
	e.parts.public.Drain()
	shutdown := e.parts.current.Load().loaded.Shutdown
	e.lifecycle.Draining(time.Duration(shutdown.DrainWait) + time.Duration(shutdown.Grace) + adminGrace + gateway.RefundFlushTimeout)
	e.logger.Info("draining", slog.String("wait", shutdown.DrainWait.String()), slog.String("grace", shutdown.Grace.String()))
	wait := time.NewTimer(time.Duration(shutdown.DrainWait))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-failed.Done():
	}
	grace, cancel := context.WithTimeout(failed, time.Duration(shutdown.Grace))
	defer cancel()
	err := e.parts.public.ShutDown(grace)

	adminDone, cancelAdmin := context.WithTimeout(context.WithoutCancel(failed), adminGrace)
	defer cancelAdmin()
	_ = e.parts.adminServer.ShutDown(adminDone) // a profile in progress is not an error
	return err
}
