package backendclient

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A BreakerState is a state of a circuit breaker.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"    // calls are made
	BreakerOpen     BreakerState = "open"      // no calls are made
	BreakerHalfOpen BreakerState = "half-open" // a few calls are made, to find out whether they succeed
)

const (
	// windowBuckets is in how many steps a window moves on.
	windowBuckets = 10
	// outage is how long a service must do nothing but fail to be taken for dead, whatever it did before in the window. It
	// is longer than the blink in which a process is replaced, and short enough to know of an outage within a second.
	outage = 500 * time.Millisecond
	// fairChance is the least time in which a service can be blamed for not having answered. A request that has less left
	// has spent the rest elsewhere, as one whose body was sent drop by drop: its client must not close a service to all.
	fairChance = 100 * time.Millisecond
)

// A BreakerStatus is the status of one service's breaker.
type BreakerStatus struct {
	State BreakerState
	// Since is when the state began.
	Since time.Time
	// TrippedAt is when the breaker left the closed state; zero while it is closed. A half-open breaker that opens again keeps it.
	TrippedAt time.Time
	// ProbesAt is when an open breaker becomes half-open; zero in the other states.
	ProbesAt time.Time
	// Cause is the failure that opened the breaker; "" while it is closed.
	Cause string
}

// A breaker counts how the attempts of a service end, and makes none while most of them fail.
type breaker struct {
	settings BreakerSettings
	machine  *gobreaker.CircuitBreaker[struct{}]
	changed  func(now BreakerStatus, why string)
	state    atomic.Pointer[BreakerStatus]
	retired  atomic.Bool // another one is in its place

	// These two are of the machine's callbacks, which it makes one at a time.
	last         error
	failingSince time.Time
}

func newBreaker(s BreakerSettings, changed func(now BreakerStatus, why string)) *breaker {
	b := &breaker{settings: s, changed: changed}
	b.state.Store(&BreakerStatus{State: BreakerClosed, Since: time.Now()})
	bucket := s.Window / windowBuckets
	b.machine = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   uint32(s.Probes),
		Interval:      s.Window + bucket, // what began at a bucket's end is counted for the whole window nevertheless
		BucketPeriod:  bucket,
		Timeout:       s.OpenFor,
		ReadyToTrip:   b.isTooMuch,
		IsSuccessful:  b.isSuccess,
		IsExcluded:    func(err error) bool { return err == errNothingLearned }, //nolint:errorlint // verdict's own, not wrapped
		OnStateChange: func(_ string, _, to gobreaker.State) { b.become(to) },
	})
	return b
}

// do makes an attempt, or returns a *refusal.
func (b *breaker) do(a *attempt) error {
	var err error
	_, refused := b.machine.Execute(func() (struct{}, error) {
		began := time.Now()
		ctx := a.ctx
		if b.state.Load().State == BreakerHalfOpen { // others wait for what becomes of it
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, b.settings.OpenFor)
			defer cancel()
		}
		err = a.try(ctx)
		return struct{}{}, verdict(ctx, began, err)
	})
	switch {
	case errors.Is(refused, gobreaker.ErrOpenState):
		return b.refuse(refused, time.Until(b.state.Load().ProbesAt))
	case errors.Is(refused, gobreaker.ErrTooManyRequests):
		return b.refuse(refused, 0) // it is being tried at this moment
	}
	return err
}

func (b *breaker) refuse(cause error, until time.Duration) error {
	return &refusal{reason: ReasonBreakerOpen, retryAfter: max(until, minRetryAfter), text: cause.Error()}
}

// errNothingLearned is the verdict on an attempt that says nothing of the service.
var errNothingLearned = errors.New("nothing learned of the service")

// verdict says what an attempt tells of the service: nil when the service does its work, were it by refusing this call;
// errNothingLearned; or the error, where the service failed. The code is the service's own: an answer that is too big for us is
// one call's misfortune.
func verdict(ctx context.Context, began time.Time, err error) error {
	if err == nil {
		return nil
	}
	switch code := status.Code(err); code {
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss, codes.Unauthenticated:
		return unlessGone(ctx, err)
	case codes.DeadlineExceeded:
		if deadline, ok := ctx.Deadline(); ok && deadline.Sub(began) < fairChance {
			return errNothingLearned
		}
		return unlessGone(ctx, err)
	case codes.Canceled:
		return errNothingLearned
	default:
		if int(code) >= numCodes {
			return unlessGone(ctx, err) // no such code, which stands for Unknown
		}
		return nil
	}
}

// unlessGone blames nobody for what happened after the caller hung up.
func unlessGone(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return errNothingLearned
	}
	return err
}

// isSuccess is the machine's question, and the moment to remember the last failure: what the machine decides follows.
func (b *breaker) isSuccess(err error) bool {
	if err != nil {
		b.last = err
	}
	return err == nil
}

// isTooMuch tells whether the failures are enough to open the breaker: a part of those attempts in the window that have ended, or
// all for a while. It is asked after each failure.
func (b *breaker) isTooMuch(c gobreaker.Counts) bool {
	now, least := time.Now(), uint32(b.settings.MinRequests)
	if c.ConsecutiveFailures <= 1 {
		b.failingSince = now
	}
	if c.ConsecutiveFailures >= least && now.Sub(b.failingSince) >= outage {
		return true
	}
	ended := c.TotalSuccesses + c.TotalFailures // c.Requests would have those that are under way
	return ended >= least && float64(c.TotalFailures) >= b.settings.FailureRate*float64(ended)
}

// become records and tells a new state. The machine is locked meanwhile.
func (b *breaker) become(to gobreaker.State) {
	before, now := b.state.Load(), BreakerStatus{State: BreakerState(to.String()), Since: time.Now()}
	why := "attempts succeed"
	switch to {
	case gobreaker.StateOpen:
		now.TrippedAt = before.TrippedAt
		if now.TrippedAt.IsZero() {
			now.TrippedAt = now.Since
		}
		now.ProbesAt = now.Since.Add(b.settings.OpenFor)
		now.Cause = causeOf(b.last)
		why = now.Cause
	case gobreaker.StateHalfOpen:
		now.TrippedAt, now.Cause = before.TrippedAt, before.Cause
		why = fmt.Sprintf("it was open for %v", b.settings.OpenFor)
	case gobreaker.StateClosed:
	}
	b.state.Store(&now)
	if !b.retired.Load() {
		b.changed(now, why)
	}
}

// causeOf is for operators alone, as it repeats the service's words.
func causeOf(err error) string {
	s := status.Convert(err)
	return s.Code().String() + ": " + cut(s.Message(), maxMessage)
}
