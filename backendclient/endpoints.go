package backendclient

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	EndpointEjected     EndpointState = "ejected"     // is connected and healthy, and gets no calls for a while because its calls failed
)

// EndpointStates returns all states.
func EndpointStates() []EndpointState {
	return []EndpointState{EndpointReady, EndpointConnecting, EndpointUnavailable, EndpointUnhealthy, EndpointEjected}
}

// An EndpointStatus is the status of one address of a service.
type EndpointStatus struct {
	Address  string
	State    EndpointState
	Since    time.Time // when the state began
	InFlight int       // unary calls; failed ones count for a second longer
	// Cause is the error of an endpoint that is not ready, with the service's own message; "" if it is ready or not known.
	Cause string
	// EjectedUntil is the end of the ejection, and Ejections is how many there were in a row; zero unless it is ejected.
	EjectedUntil time.Time
	Ejections    int
}

// An endpoint is an address of a service with its connection.
type endpoint struct {
	history

	address    string
	connection balancer.SubConn
	inFlight   atomic.Int32
	done       func(balancer.DoneInfo) // ends a call
	doneShort  func(balancer.DoneInfo) // ends a call that had little time from the start

	// Guarded by endpoints.mu, like the history.
	state EndpointState // of the connection: not EndpointEjected
	since time.Time     // of the state or of the ejection
	cause string
}

// endpoints are the endpoints of a connection to a service.
type endpoints struct {
	service   string
	logger    *slog.Logger
	ejections prometheus.Counter
	penalty   time.Duration
	picker    picker // of those that are ready and not ejected

	mu       sync.Mutex
	all      []*endpoint
	outliers outliers
}

// newEndpoints returns the endpoints of a connection to the upstream's address.
func newEndpoints(u *upstream, i intervals) *endpoints {
	return &endpoints{
		service: u.service, logger: u.logger, ejections: u.metrics.ejections, penalty: i.penalty, outliers: outliers{unit: i.ejection},
	}
}

// newEndpoint returns an endpoint that is not one of the endpoints yet.
func (s *endpoints) newEndpoint(address string) *endpoint {
	e := &endpoint{address: address, state: EndpointConnecting, since: time.Now()}
	e.done = func(info balancer.DoneInfo) { s.endCall(e, info, false) }
	e.doneShort = func(info balancer.DoneInfo) { s.endCall(e, info, true) }
	return e
}

func (s *endpoints) add(e *endpoint, connection balancer.SubConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.connection = connection
	s.all = append(s.all, e)
}

// close removes all endpoints, so that the ends of ejections are not logged.
func (s *endpoints) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.outliers.members = nil, nil
}

// healthFailure is how gRPC's errors of a failed health check begin.
const healthFailure = "connection active but"

// update records the state of an endpoint's connection. A further attempt to connect does not change the state of an unavailable endpoint.
func (s *endpoints) update(e *endpoint, to balancer.SubConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, cause := EndpointConnecting, ""
	switch to.ConnectivityState {
	case connectivity.Ready:
		state = EndpointReady
	case connectivity.TransientFailure:
		state = EndpointUnavailable
		if to.ConnectionError != nil {
			cause = truncate(to.ConnectionError.Error(), maxMessage)
		}
		if strings.HasPrefix(cause, healthFailure) {
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
	ready := slices.DeleteFunc(slices.Clone(s.all), func(e *endpoint) bool { return e.state != EndpointReady })
	left, surplus := s.outliers.setMembers(ready, time.Now())
	s.readmitted(left, "it is no longer connected")
	s.readmitted(surplus, "too few others are available")
	s.publish()
	if changed {
		e.since = time.Now()
	}
	e.cause = cause
}

// publish makes the picker use the endpoints that are not ejected. The caller holds s.mu.
func (s *endpoints) publish() {
	if inUse := slices.DeleteFunc(slices.Clone(s.outliers.members), (*endpoint).isEjected); len(inUse) > 0 {
		s.picker.inUse.Store(&inUse)
	}
}

// expire ends the ejections whose time is over.
func (s *endpoints) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readmitted(s.outliers.expire(time.Now()), "its time is over")
	s.publish()
}

// readmitted records that the endpoints get calls again. The caller holds s.mu.
func (s *endpoints) readmitted(endpoints []*endpoint, because string) {
	for _, e := range endpoints {
		e.since, e.cause = time.Now(), ""
		s.logger.Info("endpoint is no longer ejected", slog.String("service", s.service), slog.String("address", e.address),
			slog.String("because", because))
	}
}

// endCall ends a call. A failure counts as in flight for the penalty: otherwise an endpoint that fails at once would seem the least busy.
func (s *endpoints) endCall(e *endpoint, info balancer.DoneInfo, short bool) {
	code := status.Code(info.Err)
	if isFailure(code) {
		time.AfterFunc(s.penalty, func() { e.inFlight.Add(-1) })
		if !inconclusive(code, info.BytesReceived, short) {
			s.failed(e, info.Err)
		}
		return
	}
	e.inFlight.Add(-1)
	if code == codes.Canceled || !info.BytesReceived {
		return // no answer: gRPC reports no error for a pick whose connection broke before the call
	}
	s.outliers.successes.Add(1)
	if e.failures.Load() > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outliers.succeeded(e)
	}
}

// inconclusive reports whether a failure is no sign of a bad endpoint: the call had little time from the start, or its connection broke. A
// broken connection is recognized by the error, as calls may end before the state of the endpoint changes, and after its next connection is
// ready.
func inconclusive(code codes.Code, bytesReceived, short bool) bool {
	return code == codes.DeadlineExceeded && short || code == codes.Unavailable && !bytesReceived
}

// failed records a failed call, and ejects the endpoint if it is an outlier.
func (s *endpoints) failed(e *endpoint, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.outliers.failed(e, time.Now()) {
		return
	}
	e.since, e.cause = time.Now(), causeOf(err)
	s.ejections.Inc()
	s.logger.Warn("endpoint is ejected", slog.String("service", s.service), slog.String("address", e.address),
		slog.String("for", e.ejectedFor.String()), slog.Int("in_a_row", e.ejections), slog.String("because", e.cause))
	s.publish()
	time.AfterFunc(e.ejectedFor, s.expire)
}

// statuses returns the status of each endpoint, by address.
func (s *endpoints) statuses() []EndpointStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]EndpointStatus, 0, len(s.all))
	for _, e := range s.all {
		status := EndpointStatus{
			Address: e.address, State: e.state, Since: e.since, InFlight: int(e.inFlight.Load()), Cause: e.cause,
		}
		if e.isEjected() {
			status.State, status.EjectedUntil, status.Ejections = EndpointEjected, e.ejectedUntil, e.ejections
		}
		list = append(list, status)
	}
	slices.SortStableFunc(list, func(a, b EndpointStatus) int { return cmp.Compare(a.Address, b.Address) })
	return list
}
