package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"opsgate/backendclient"
	"opsgate/ratelimit"
)

const (
	// maxQueuedRefunds is sufficient for nine seconds with 500 failed requests per second, even if
	// each refund takes 50 ms, the default timeout of a call to Redis.
	maxQueuedRefunds = 4096
	// refundWorkers is the number of concurrent refunds. It limits the connections to Redis that
	// refunds use.
	refundWorkers = 4
	// RefundFlushTimeout is how long [Refunds.Run] sends queued refunds after its context has
	// ended.
	RefundFlushTimeout = 2 * time.Second
)

// RefundsOptions are the options of Refunds. Limiter and Metrics are required.
type RefundsOptions struct {
	Limiter Limiter
	Metrics *Metrics
	Logger  *slog.Logger // nil for none
	Lines   LineLimit    // of log lines for failed refunds; nil for no limit
}

// Refunds sends the refunds of failed requests to the limiter, after their responses. All Gateways
// of a process share one Refunds, so that a reload loses no refund. A failed refund is counted and
// logged, but not retried: the store may have executed it, although its response was lost.
type Refunds struct {
	limiter Limiter
	metrics *Metrics
	logger  *slog.Logger
	lines   LineLimit
	queue   chan *refund
}

type refund struct {
	requestID string
	tokenID   string
	decision  ratelimit.Decision
}

// NewRefunds returns Refunds that queue until Run sends them.
func NewRefunds(o RefundsOptions) *Refunds {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Refunds{
		limiter: o.Limiter, metrics: o.Metrics, logger: o.Logger, lines: o.Lines, queue: make(chan *refund, maxQueuedRefunds),
	}
}

// Metric labels of the reasons for which a refund is dropped.
const (
	refundQueueFull = "queue_full"
	refundFailed    = "failed"
	refundShutdown  = "shutdown"
)

var (
	errRefundQueueFull = errors.New("too many refunds are waiting")
	errRefundShutdown  = errors.New("the gateway ended before the refund could be sent")
)

// add queues a refund without blocking. It drops the refund if the queue is full.
func (f *Refunds) add(r *refund) {
	select {
	case f.queue <- r:
	default:
		f.drop(r, refundQueueFull, errRefundQueueFull)
	}
}

// Run sends queued refunds until ctx ends. Then it sends the refunds that are still queued, for at
// most RefundFlushTimeout, drops the rest, and returns nil. The limiter must return from Refund
// when the context of the call ends.
func (f *Refunds) Run(ctx context.Context) error {
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var workers sync.WaitGroup
	for range refundWorkers {
		workers.Go(func() { f.work(ctx, callCtx) })
	}
	<-ctx.Done()
	timeout := time.AfterFunc(RefundFlushTimeout, cancel)
	defer timeout.Stop()
	workers.Wait()
	for f.next(func(r *refund) { f.drop(r, refundShutdown, errRefundShutdown) }) {
	}
	return nil
}

// work sends refunds until ctx ends, and then the rest of the queue until it is empty or callCtx
// ends.
func (f *Refunds) work(ctx, callCtx context.Context) {
	for ctx.Err() == nil {
		select {
		case r := <-f.queue:
			f.send(callCtx, r)
		case <-ctx.Done():
		}
	}
	for callCtx.Err() == nil && f.next(func(r *refund) { f.send(callCtx, r) }) {
	}
}

// next calls do with the next queued refund. It returns false if none is queued.
func (f *Refunds) next(do func(*refund)) bool {
	select {
	case r := <-f.queue:
		do(r)
		return true
	default:
		return false
	}
}

func (f *Refunds) send(ctx context.Context, r *refund) {
	if err := f.limiter.Refund(ctx, r.tokenID, r.decision); err != nil {
		f.drop(r, refundFailed, err)
		return
	}
	f.metrics.refunds.Inc()
}

// drop counts and logs a refund that is not made.
func (f *Refunds) drop(r *refund, reason string, err error) {
	f.metrics.refundsDropped.WithLabelValues(reason).Inc()
	if allows(f.lines, "refund") {
		f.logger.Warn("a failed request was not refunded", "request_id", r.requestID, "reason", reason, "error", err)
	}
}

// isRefunded reports whether a failed request is refunded. Each 5xx is, except the one for a
// service's response that is too large: with a refund, a client could cause such responses without
// limit.
func isRefunded(p *Problem) bool {
	call, isCall := errors.AsType[*backendclient.Error](p.err)
	return p.Status >= http.StatusInternalServerError && !(isCall && call.TooLarge)
}

// scheduleRefund removes the failed request from the usage in the response's headers, and schedules
// a refund after the response (docs/integrate/contract.md, "Rate limits").
func (r *Request) scheduleRefund() {
	if r.limitSet == nil || !r.decision.Allowed {
		return
	}
	r.pendingRefund = &refund{requestID: r.id, tokenID: r.principal.TokenID, decision: r.decision}
	r.limitSet.applyRefund(&r.decision)
}
