package backendclient

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// An EndpointState is the state of an endpoint.
type EndpointState string

// The states of an endpoint.
const (
	EndpointReady       EndpointState = "ready"       // gets calls
	EndpointConnecting  EndpointState = "connecting"  // the first attempt, or after a broken connection
	EndpointUnavailable EndpointState = "unavailable" // the last attempt to connect failed; more follow
	EndpointUnhealthy   EndpointState = "unhealthy"   // is connected, and its health check fails
	// is connected and healthy, and gets no calls for a while because its calls failed
	EndpointEjected EndpointState = "ejected"
)

// EndpointStates returns all states.
func EndpointStates() []EndpointState {
	return []EndpointState{EndpointReady, EndpointConnecting, EndpointUnavailable, EndpointUnhealthy, EndpointEjected}
}

// An EndpointStatus is the status of one address of a service.
type EndpointStatus struct {
	Address  string        `json:"address"`
	State    EndpointState `json:"state"`
	Since    time.Time     `json:"since"`     // when the state began
	InFlight int           `json:"in_flight"` // unary calls; failed ones count for a second longer
	// Cause is the error of an endpoint that is not ready, with the service's own message; "" for
	// none.
	Cause string `json:"cause,omitempty"`
	// EjectedUntil is the end of the ejection, and Ejections is how many there were in a row; zero
	// unless it is ejected.
	EjectedUntil time.Time `json:"-"`
	Ejections    int       `json:"-"`
	// WrongSince is when a probe found that the endpoint is of another service; zero unless it is.
	WrongSince time.Time `json:"-"`
}

// An endpoint is an address of a service with its connection.
type endpoint struct {
	history

	address string
	subConn balancer.SubConn

	// Guarded by endpoints.mu, like the history.
	inFlight     int
	state        EndpointState // of the connection: not EndpointEjected
	since        time.Time     // of the state or of the ejection
	cause        string
	reason       string    // of a connection that failed: see UnreachableError
	generation   int       // how often the endpoint became ready
	rightService bool      // a probe since it became ready found the right service
	wrongSince   time.Time // see EndpointStatus
}

// endpoints are the endpoints of a connection to a service.
type endpoints struct {
	service   string
	useTLS    bool
	logger    *slog.Logger
	ejections prometheus.Counter
	lookups   lookups // of the name
	penalty   time.Duration
	probe     func() // requests probes; called, with mu held, when an endpoint becomes ready or silent
	pool      sync.Pool

	mu       sync.Mutex
	updated  chan struct{} // closed and replaced at each change of a state
	all      []*endpoint
	inUse    []*endpoint // those that get calls; nil before an endpoint was ready, then not empty
	picks    int
	outliers outliers
}

// newEndpoints returns the endpoints of a connection to the upstream's address.
func newEndpoints(u *upstream, useTLS bool, i intervals) *endpoints {
	s := &endpoints{
		service: u.service, useTLS: useTLS, logger: u.logger, ejections: u.metrics.ejections, penalty: i.penalty,
		outliers: outliers{unit: i.ejection},
		probe:    u.requestProbes, updated: make(chan struct{}),
	}
	s.lookups.init(u)
	s.pool.New = s.newPick
	return s
}

// newEndpoint returns an endpoint without its SubConn, which add sets.
func newEndpoint(address string) *endpoint {
	return &endpoint{address: address, state: EndpointConnecting, since: time.Now()}
}

func (s *endpoints) add(e *endpoint, subConn balancer.SubConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.subConn = subConn
	s.all = append(s.all, e)
}

// close removes all endpoints, so that the ends of ejections are not logged.
func (s *endpoints) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.outliers.members = nil, nil
}

// healthFailurePrefix is the prefix of gRPC's errors of a failed health check.
const healthFailurePrefix = "connection active but"

// update records the state of an endpoint's connection. A further attempt to connect does not
// change the state of an unavailable endpoint.
func (s *endpoints) update(e *endpoint, to balancer.SubConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, cause, reason := EndpointConnecting, "", ""
	switch to.ConnectivityState {
	case connectivity.Ready:
		state = EndpointReady
	case connectivity.TransientFailure:
		state = EndpointUnavailable
		if to.ConnectionError != nil {
			cause, reason = truncate(to.ConnectionError.Error(), maxMessage), reasonOf(to.ConnectionError, s.useTLS)
		}
		if strings.HasPrefix(cause, healthFailurePrefix) {
			state = EndpointUnhealthy
		}
	case connectivity.Shutdown:
		s.all = slices.DeleteFunc(s.all, func(other *endpoint) bool { return other == e })
	case connectivity.Idle, connectivity.Connecting:
		if e.state == EndpointUnavailable || e.state == EndpointUnhealthy {
			return
		}
	}
	changed := state != e.state
	e.state = state
	connected := slices.DeleteFunc(slices.Clone(s.all), func(e *endpoint) bool { return e.state != EndpointReady })
	removed, readmitted := s.outliers.setMembers(connected, time.Now())
	s.recordReadmitted(removed, "it is no longer connected")
	s.recordReadmitted(readmitted, "too few others are available")
	s.publish()
	if changed {
		e.since = time.Now()
	}
	if changed && state == EndpointReady {
		e.generation++
		e.rightService = false
		s.probe()
	}
	e.cause, e.reason = cause, reason // after recordReadmitted, which clears the cause
	close(s.updated)
	s.updated = make(chan struct{})
}

// awaitAttempts waits until each endpoint has been connected or an attempt to connect has failed,
// at most until ctx ends.
func (s *endpoints) awaitAttempts(ctx context.Context) {
	for {
		s.mu.Lock()
		updated := s.updated
		tried := !slices.ContainsFunc(s.all, func(e *endpoint) bool { return e.state == EndpointConnecting })
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

// publish makes Pick use the endpoints that are neither ejected nor silent, or the silent ones if
// there is no other. The caller holds s.mu.
func (s *endpoints) publish() {
	ready := slices.DeleteFunc(slices.Clone(s.outliers.members), (*endpoint).isEjected)
	inUse := slices.DeleteFunc(slices.Clone(ready), func(e *endpoint) bool { return e.silence != answering })
	switch {
	case len(inUse) > 0:
		s.inUse = inUse
	case len(ready) > 0: // else no endpoint is ready, and gRPC does not use the picker (leastBusyBalancer.Build)
		s.inUse = ready
	}
}

// expire ends the ejections whose time is over.
func (s *endpoints) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordReadmitted(s.outliers.expire(time.Now()), "its time is over")
	s.publish()
}

// recordReadmitted records and logs that endpoints are no longer ejected. The caller holds s.mu.
func (s *endpoints) recordReadmitted(endpoints []*endpoint, reason string) {
	for _, e := range endpoints {
		if e.silence == confirmed {
			continue // it stays ejected until it answers
		}
		e.since, e.cause = time.Now(), ""
		s.logger.Info("endpoint is no longer ejected", slog.String("service", s.service), slog.String("address", e.address),
			slog.String("reason", reason))
	}
}

// end ends a call. A failure counts as in flight for the penalty: otherwise an endpoint that fails
// at once would seem the least busy.
func (s *endpoints) end(e *endpoint, c *callContext, began time.Time, info balancer.DoneInfo) {
	c.answered = info.BytesReceived
	deadline, _ := c.Deadline()
	code, now := status.Code(info.Err), time.Now()
	failed := isFailure(code) || refusesGateway(info.Err, c.namesResource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if info.BytesReceived {
		s.answered(e, now)
	}
	if failed {
		time.AfterFunc(s.penalty, func() { s.endPenalty(e) })
	} else {
		e.inFlight--
	}
	switch {
	case failed && isEndpointFailure(code, info.BytesReceived, deadline.Sub(began) < minAttemptTime):
		e.lastFailure = info.Err
		s.eject(s.outliers.failed(e, c.team, now))
	case failed, code == codes.Canceled, !info.BytesReceived:
		// The caller canceled, or the connection broke after the pick (no error, no bytes) and gRPC
		// picks again.
		e.endedWithoutResult(c.team)
	default:
		silent, ejected := s.outliers.succeeded(e, c.team, began, now)
		s.eject(ejected)
		if len(silent) > 0 {
			s.publish()
			s.probe()
		}
	}
}

// endPenalty ends the time that a failed call counts as in flight.
func (s *endpoints) endPenalty(e *endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.inFlight--
}

// answered records an answer of an endpoint to a call or to a probe. The caller holds s.mu.
func (s *endpoints) answered(e *endpoint, now time.Time) {
	before := e.answered(now)
	if before == confirmed && !e.isEjected() {
		s.recordReadmitted([]*endpoint{e}, "it answers")
	}
	if before != answering {
		s.publish()
	}
}

// probeUnanswered records that an endpoint did not answer a probe. The caller holds s.mu.
func (s *endpoints) probeUnanswered(e *endpoint) {
	if e.silence == suspected {
		e.silence = confirmed
		s.recordEjection(e, fmt.Sprintf("no answer for %v, while other endpoints answer", maxSilence),
			slog.String("for", "until it answers"))
	}
}

// isEndpointFailure reports whether a failed call is a sign of a bad endpoint. It is not if it
// timed out in less than minAttemptTime, or if its connection broke. A broken connection is
// recognized by the call, Unavailable without a byte, because the call may end before the
// endpoint's state changes, or after the next connection is ready.
func isEndpointFailure(code codes.Code, bytesReceived, shortTimeout bool) bool {
	connectionBroke := code == codes.Unavailable && !bytesReceived
	return !connectionBroke && !(code == codes.DeadlineExceeded && shortTimeout)
}

// eject records and logs the ejection of endpoints. The caller holds s.mu.
func (s *endpoints) eject(ejected []*endpoint) {
	for _, e := range ejected {
		s.recordEjection(e, describe(e.lastFailure), slog.String("for", e.ejectedFor.String()),
			slog.Int("in_a_row", e.ejections))
		time.AfterFunc(e.ejectedFor, s.expire)
	}
}

func (s *endpoints) recordEjection(e *endpoint, cause string, details ...slog.Attr) {
	e.since, e.cause = time.Now(), cause
	s.ejections.Inc()
	attrs := append([]slog.Attr{slog.String("service", s.service), slog.String("address", e.address)}, details...)
	s.logger.LogAttrs(context.Background(), slog.LevelWarn, "endpoint is ejected",
		append(attrs, slog.String("reason", cause))...)
	s.publish()
}

// statuses returns the status of each endpoint, by address.
func (s *endpoints) statuses() []EndpointStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]EndpointStatus, 0, len(s.all))
	for _, e := range s.all {
		status := EndpointStatus{
			Address: e.address, State: e.state, Since: e.since, InFlight: e.inFlight, Cause: e.cause,
			WrongSince: e.wrongSince,
		}
		if e.isEjected() || e.silence == confirmed {
			status.State, status.EjectedUntil, status.Ejections = EndpointEjected, e.ejectedUntil, e.ejections
		}
		list = append(list, status)
	}
	slices.SortStableFunc(list, func(a, b EndpointStatus) int { return cmp.Compare(a.Address, b.Address) })
	return list
}
