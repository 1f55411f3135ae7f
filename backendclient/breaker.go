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
	// windowBuckets is the number of steps in which the window moves.
	windowBuckets = 10
	// minOutage is the time after which the breaker opens if all attempts fail, regardless of earlier successes in the window. It is longer
	// than it takes to replace an instance, and short enough that the breaker opens within a second of an outage.
	minOutage = 500 * time.Millisecond
	// minAttemptTime is the minimum timeout of an attempt for which DeadlineExceeded counts as a failure of the service. A request that has
	// less time left was delayed elsewhere, for instance by a slow upload: slow clients must not open the breaker.
	minAttemptTime = 100 * time.Millisecond
	// halfOpenAttempts is the number of attempts that a half-open breaker allows in all, and that must succeed to close it. An inconclusive
	// one is replaced by another.
	halfOpenAttempts = 3
)

// A BreakerStatus is the status of the breaker of a method. That of a service is the worst of its methods: open before half-open before
// closed, and of two in the same state the one that left the closed state first.
type BreakerStatus struct {
	State BreakerState
	// Since is when the state began.
	Since time.Time
	// TrippedAt is when the breaker left the closed state; zero while it is closed. A half-open breaker that opens again keeps it.
	TrippedAt time.Time
	// HalfOpenAt is when an open breaker becomes half-open; zero in the other states.
	HalfOpenAt time.Time
	// Cause is the failure that opened the breaker; "" while it is closed.
	Cause string
	// Team is the team whose calls are refused, if the breaker refuses those of one team only; "" if it refuses those of all teams or of none.
	Team string
	// Methods are the methods of the service whose breakers are not closed, in order, such as "CreateIncident"; nil in the status of a method.
	Methods []string
}

// A breaker counts the failed attempts of a method. After too many failures, it allows no attempts for a while. If all failures were
// timeouts of one team, it still allows the attempts of other teams.
type breaker struct {
	settings    BreakerSettings
	circuit     *gobreaker.CircuitBreaker[error]
	changed     func(b *breaker, reason string)
	status      atomic.Pointer[BreakerStatus]
	attribution attribution

	// Only callbacks use these; gobreaker holds its lock during each.
	lastFailure  error
	failingSince time.Time
}

func newBreaker(s BreakerSettings, changed func(b *breaker, reason string)) *breaker {
	b := &breaker{settings: s, changed: changed, attribution: attribution{window: s.Window}}
	b.status.Store(&BreakerStatus{State: BreakerClosed, Since: time.Now()})
	bucket := s.Window / windowBuckets
	b.circuit = gobreaker.NewCircuitBreaker[error](gobreaker.Settings{
		MaxRequests:   halfOpenAttempts,
		Interval:      s.Window + bucket, // one bucket more, because the current one is not complete
		BucketPeriod:  bucket,
		Timeout:       s.OpenFor,
		ReadyToTrip:   b.shouldTrip,
		IsSuccessful:  b.isSuccess,
		IsExcluded:    func(err error) bool { return err == errInconclusive }, //nolint:errorlint // classify does not wrap it
		OnStateChange: func(_ string, _, to gobreaker.State) { b.onStateChange(to) },
	})
	return b
}

// do makes an attempt, or returns a *notMadeError.
func (b *breaker) do(c *call) error {
	// Execute returns both results of the function, and counts only the second one: err is for the caller. If it does not call the function,
	// circuitErr is its own error.
	err, circuitErr := b.circuit.Execute(func() (error, error) {
		ctx := c.ctx
		if b.status.Load().State == BreakerHalfOpen { // a shorter timeout, because other calls fail until these attempts have ended
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, b.settings.OpenFor)
			defer cancel()
		}
		return b.attempt(ctx, c)
	})
	open, halfOpenFull := errors.Is(circuitErr, gobreaker.ErrOpenState), errors.Is(circuitErr, gobreaker.ErrTooManyRequests)
	if !open && !halfOpenFull { // the function was called
		return err
	}
	if team := b.attribution.onlyFailingTeam(); team != "" && team != c.team { // calls of other teams are made, outside the circuit
		err, _ := b.attempt(c.ctx, c)
		return err
	}
	var retryAfter time.Duration // 0 if halfOpenFull
	if open {
		retryAfter = time.Until(b.status.Load().HalfOpenAt)
	}
	return newNotMadeError(ReasonBreakerOpen, retryAfter, circuitErr.Error())
}

// attempt makes an attempt. It returns the error for the caller, and the one that the circuit counts: nil, errInconclusive or a failure.
func (b *breaker) attempt(ctx context.Context, c *call) (err, counted error) {
	err = c.attempt(ctx)
	return err, b.attribution.record(c, classify(ctx, c, err))
}

// current returns the current status.
func (b *breaker) current() BreakerStatus {
	s := *b.status.Load()
	if s.State != BreakerClosed {
		s.Team = b.attribution.onlyFailingTeam()
	}
	return s
}

// errInconclusive is the class of attempts that count neither as a success nor as a failure of the service.
var errInconclusive = errors.New("inconclusive")

// classify returns err if the service failed, and nil if the service works, which includes rejected calls and responses that are too large.
// It returns errInconclusive if neither is certain: the caller canceled, or left the attempt too little time.
func classify(ctx context.Context, c *call, err error) error {
	code := status.Code(err)
	deadline, hasDeadline := ctx.Deadline()
	shortTimeout := hasDeadline && deadline.Sub(c.attemptStart) < minAttemptTime
	switch {
	case code == codes.Canceled:
		return errInconclusive
	case !isFailure(code) && !refusesGateway(err, c.method.namesResource):
		return nil
	case errors.Is(ctx.Err(), context.Canceled), code == codes.DeadlineExceeded && shortTimeout:
		return errInconclusive
	}
	return err
}

// isFailure reports whether a code means that the service failed. Unauthenticated does: the service rejects the gateway itself. A code that
// gRPC does not define counts as Unknown.
func isFailure(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.DataLoss, codes.Unauthenticated:
		return true
	default:
		return int(code) >= numCodes
	}
}

// isSuccess is the callback after each attempt. It reports whether the service works, and records the last failure for later callbacks.
func (b *breaker) isSuccess(err error) bool {
	if err != nil {
		b.lastFailure = err
	}
	return err == nil
}

// shouldTrip is the callback after each failure. It reports whether the breaker opens: the failure rate in the window is reached, or all
// attempts have failed for minOutage.
func (b *breaker) shouldTrip(c gobreaker.Counts) bool {
	now, minRequests := time.Now(), uint32(b.settings.MinRequests)
	if c.ConsecutiveFailures <= 1 {
		b.failingSince = now
	}
	if c.ConsecutiveFailures >= minRequests && now.Sub(b.failingSince) >= minOutage {
		return true
	}
	ended := c.TotalSuccesses + c.TotalFailures // c.Requests includes attempts in flight
	return ended >= minRequests && float64(c.TotalFailures) >= b.settings.FailureRate*float64(ended)
}

// onStateChange is the callback that records and reports a new state.
func (b *breaker) onStateChange(to gobreaker.State) {
	before, next := b.status.Load(), BreakerStatus{State: BreakerState(to.String()), Since: time.Now()}
	reason := "attempts succeed"
	switch to {
	case gobreaker.StateOpen:
		next.TrippedAt = before.TrippedAt
		if next.TrippedAt.IsZero() {
			next.TrippedAt = next.Since
		}
		next.HalfOpenAt = next.Since.Add(b.settings.OpenFor)
		next.Cause = causeOf(b.lastFailure)
		reason = next.Cause
		if team := b.attribution.onlyFailingTeam(); team != "" {
			reason += "; only calls of team " + team + " are refused"
		}
	case gobreaker.StateHalfOpen:
		next.TrippedAt, next.Cause = before.TrippedAt, before.Cause
		reason = fmt.Sprintf("it was open for %v", b.settings.OpenFor)
	case gobreaker.StateClosed:
	}
	b.status.Store(&next)
	b.changed(b, reason)
}

// causeOf returns a failure as text for operators. It contains the service's own message.
func causeOf(err error) string {
	s := status.Convert(err)
	return s.Code().String() + ": " + truncate(s.Message(), maxMessage)
}
