package endpoints

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"opsgate/internal/certs"
	"opsgate/internal/logging"
	"opsgate/internal/outagelog"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// A State is the state of an endpoint.
type State string

// The states of an endpoint.
const (
	Ready       State = "ready"       // gets calls
	Connecting  State = "connecting"  // the first attempt, or after a broken connection
	Unavailable State = "unavailable" // the last attempt to connect failed; more follow
	Unhealthy   State = "unhealthy"   // is connected, and its health check fails
	// is connected and healthy, and gets no calls for a while because its calls failed
	Ejected State = "ejected"
)

// States returns all states.
func States() []State {
	return []State{Ready, Connecting, Unavailable, Unhealthy, Ejected}
}

// A Status is the status of an endpoint.
type Status struct {
	Address  string    `json:"address"`
	State    State     `json:"state"`
	Since    time.Time `json:"since"`     // when the state began
	InFlight int       `json:"in_flight"` // unary calls; failed calls count for a second longer
	// Cause is the error of an endpoint that is not ready, with the service's own message; "" for
	// none.
	Cause string `json:"cause,omitempty"`
	// EjectedUntil is the end of the ejection, and Ejections is the number of ejections in a row;
	// both are zero unless the endpoint is ejected.
	EjectedUntil time.Time `json:"-"`
	Ejections    int       `json:"-"`
	// WrongSince is when a probe found that another service answers at the address; zero if none
	// does.
	WrongSince time.Time `json:"-"`
}

// maxCause is the maximum length of a cause in bytes.
const maxCause = 1024

// Intervals are how long and how often a [Set] waits.
type Intervals struct {
	Ejection          time.Duration // length of a first ejection
	Penalty           time.Duration // how long a failed call still counts as in flight
	Lookup, MinLookup time.Duration // see lookupInterval
}

// DefaultIntervals returns the intervals that are used except in tests.
func DefaultIntervals() Intervals {
	return Intervals{Ejection: ejectionUnit, Penalty: failurePenalty, Lookup: lookupInterval, MinLookup: minLookupInterval}
}

// Options are the options of [New]. All are required, except TLS.
type Options struct {
	Service   string             // for the log
	TLS       *certs.ClientFiles // nil for connections without TLS
	Intervals Intervals
	Logger    *slog.Logger

	Ejections, FailedLookups prometheus.Counter

	// RequestProbes is called when an endpoint becomes ready or silent, and must not block. The
	// caller then probes the endpoints of [Set.ToProbe].
	RequestProbes func()
	// Describe returns the error of a call as text for operators.
	Describe func(error) string
}

// An Endpoint is an address of a service with its connection.
type Endpoint struct {
	history

	address string
	subConn balancer.SubConn

	// Guarded by Set.mu, like the history.
	inFlight     int
	state        State     // of the connection: not Ejected
	since        time.Time // when the state or the ejection began
	cause        string
	reason       string    // of a connection that failed: see UnreachableError
	generation   int       // how often the endpoint became ready
	rightService bool      // a probe has found the right service since the endpoint became ready
	wrongSince   time.Time // see Status
}

// Address returns the address of the endpoint.
func (e *Endpoint) Address() string { return e.address }

// A Set is the endpoints of a connection to a service. It is safe for concurrent use.
type Set struct {
	options Options
	lookups outagelog.Log // of the name
	pool    sync.Pool

	mu       sync.Mutex
	updated  chan struct{} // closed and replaced at each change of a state
	all      []*Endpoint
	inUse    []*Endpoint // endpoints that get calls; nil before an endpoint was ready, then not empty
	picks    int
	outliers outliers
}

// New returns a set without endpoints. A connection with its [Set.DialOptions] adds them.
func New(o Options) *Set {
	s := &Set{options: o, outliers: outliers{unit: o.Intervals.Ejection}, updated: make(chan struct{})}
	s.lookups.Logger = o.Logger.With(slog.String("service", o.Service))
	s.lookups.Failed = "the name of an internal service does not resolve"
	s.lookups.Recovered = "the name of an internal service resolves again"
	s.pool.New = s.newPick
	return s
}

// newEndpoint returns an endpoint without its SubConn, which add sets.
func newEndpoint(address string) *Endpoint {
	return &Endpoint{address: address, state: Connecting, since: time.Now()}
}

func (s *Set) add(e *Endpoint, subConn balancer.SubConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.subConn = subConn
	s.all = append(s.all, e)
}

// close removes all endpoints, so that the ends of ejections are not logged.
func (s *Set) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.outliers.members = nil, nil
}

// healthFailurePrefix is the prefix of gRPC's errors of a failed health check.
const healthFailurePrefix = "connection active but"

// update records the state of an endpoint's connection. A further attempt to connect does not
// change the state of an unavailable endpoint.
func (s *Set) update(e *Endpoint, to balancer.SubConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, cause, reason := Connecting, "", ""
	switch to.ConnectivityState {
	case connectivity.Ready:
		state = Ready
	case connectivity.TransientFailure:
		state = Unavailable
		if to.ConnectionError != nil {
			cause = logging.Truncate(to.ConnectionError.Error(), maxCause)
			reason = reasonOf(to.ConnectionError, s.options.TLS != nil)
		}
		if strings.HasPrefix(cause, healthFailurePrefix) {
			state = Unhealthy
		}
	case connectivity.Shutdown:
		s.all = slices.DeleteFunc(s.all, func(other *Endpoint) bool { return other == e })
	case connectivity.Idle, connectivity.Connecting:
		if e.state == Unavailable || e.state == Unhealthy {
			return
		}
	}
	changed := state != e.state
	e.state = state
	connected := slices.DeleteFunc(slices.Clone(s.all), func(e *Endpoint) bool { return e.state != Ready })
	removed, readmitted := s.outliers.setMembers(connected, time.Now())
	s.recordReadmitted(removed, "it is no longer connected")
	s.recordReadmitted(readmitted, "too few others are available")
	s.publish()
	if changed {
		e.since = time.Now()
	}
	if changed && state == Ready {
		e.generation++
		e.rightService = false
		s.options.RequestProbes()
	}
	e.cause, e.reason = cause, reason // after recordReadmitted, which clears the cause
	close(s.updated)
	s.updated = make(chan struct{})
}

// AwaitAttempts waits until each endpoint has been connected or an attempt to connect has failed,
// at most until ctx ends.
func (s *Set) AwaitAttempts(ctx context.Context) {
	for {
		s.mu.Lock()
		updated := s.updated
		tried := !slices.ContainsFunc(s.all, func(e *Endpoint) bool { return e.state == Connecting })
		s.mu.Unlock()
		if tried {
			return
		}
		select {
		case <-updated:
		case <-ctx.Done():
			return
		}
	}
}

// publish makes Pick use the endpoints that are neither ejected nor silent, or the silent endpoints
// if there is no other. The caller holds s.mu.
func (s *Set) publish() {
	ready := slices.DeleteFunc(slices.Clone(s.outliers.members), (*Endpoint).isEjected)
	inUse := slices.DeleteFunc(slices.Clone(ready), func(e *Endpoint) bool { return e.silence != noSilence })
	switch {
	case len(inUse) > 0:
		s.inUse = inUse
	case len(ready) > 0: // else no endpoint is ready, and gRPC does not use the picker (leastBusyBalancer.Build)
		s.inUse = ready
	}
}

// endEjections ends the ejections whose time is over.
func (s *Set) endEjections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordReadmitted(s.outliers.expire(time.Now()), "its time is over")
	s.publish()
}

// recordReadmitted records and logs that endpoints are no longer ejected. The caller holds s.mu.
func (s *Set) recordReadmitted(endpoints []*Endpoint, reason string) {
	for _, e := range endpoints {
		if e.silence == confirmed {
			continue // it stays ejected until it answers
		}
		e.since, e.cause = time.Now(), ""
		s.options.Logger.Info("endpoint is no longer ejected", slog.String("service", s.options.Service),
			slog.String("address", e.address), slog.String("reason", reason))
	}
}

// A Result is what a call shows of its endpoint.
type Result int

// The results of calls. A failed call counts as in flight for the penalty: otherwise an endpoint
// that fails at once would seem the least busy.
const (
	Success Result = iota
	// Inconclusive is for calls that were canceled, or that gRPC makes again at another endpoint.
	Inconclusive
	// Failure may be due to the endpoint.
	Failure
	// OtherFailure is not due to the endpoint.
	OtherFailure
)

// end ends a call.
func (s *Set) end(e *Endpoint, c Call, began time.Time, info balancer.DoneInfo) {
	result, team, now := c.Ended(info, began), c.Team(), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if info.BytesReceived {
		s.recordAnswer(e, now)
	}
	if result == Failure || result == OtherFailure {
		time.AfterFunc(s.options.Intervals.Penalty, func() { s.endPenalty(e) })
	} else {
		e.inFlight--
	}
	switch result {
	case Failure:
		e.lastFailure = info.Err
		s.startEjections(s.outliers.failed(e, team, now))
	case OtherFailure, Inconclusive:
		e.endedWithoutResult(team)
	case Success:
		silent, ejected := s.outliers.succeeded(e, team, began, now)
		s.startEjections(ejected)
		if len(silent) > 0 {
			s.publish()
			s.options.RequestProbes()
		}
	}
}

// endPenalty ends the time that a failed call counts as in flight.
func (s *Set) endPenalty(e *Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.inFlight--
}

// recordAnswer records an answer of an endpoint to a call or to a probe. The caller holds s.mu.
func (s *Set) recordAnswer(e *Endpoint, now time.Time) {
	before := e.answered(now)
	if before == confirmed && !e.isEjected() {
		s.recordReadmitted([]*Endpoint{e}, "it answers")
	}
	if before != noSilence {
		s.publish()
	}
}

// startEjections records and logs the ejection of endpoints, and plans its end. The caller holds
// s.mu.
func (s *Set) startEjections(ejected []*Endpoint) {
	for _, e := range ejected {
		s.recordEjection(e, s.options.Describe(e.lastFailure), slog.String("for", e.ejectedFor.String()),
			slog.Int("in_a_row", e.ejections))
		time.AfterFunc(e.ejectedFor, s.endEjections)
	}
}

func (s *Set) recordEjection(e *Endpoint, cause string, details ...slog.Attr) {
	e.since, e.cause = time.Now(), cause
	s.options.Ejections.Inc()
	attrs := append([]slog.Attr{slog.String("service", s.options.Service), slog.String("address", e.address)}, details...)
	s.options.Logger.LogAttrs(context.Background(), slog.LevelWarn, "endpoint is ejected",
		append(attrs, slog.String("reason", cause))...)
	s.publish()
}

// Statuses returns the status of each endpoint, by address.
func (s *Set) Statuses() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Status, 0, len(s.all))
	for _, e := range s.all {
		status := Status{
			Address: e.address, State: e.state, Since: e.since, InFlight: e.inFlight, Cause: e.cause,
			WrongSince: e.wrongSince,
		}
		if e.isEjected() || e.silence == confirmed {
			status.State, status.EjectedUntil, status.Ejections = Ejected, e.ejectedUntil, e.ejections
		}
		list = append(list, status)
	}
	slices.SortStableFunc(list, func(a, b Status) int { return cmp.Compare(a.Address, b.Address) })
	return list
}
