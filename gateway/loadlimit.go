package gateway

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/gateway/responses"
)

// A LoadLimit limits the number of requests in flight, the memory of bodies that are arriving, and
// the memory of responses that are being written. All Gateways of a process share one LoadLimit, so
// that its limits hold across reloads. It is safe for concurrent use.
type LoadLimit struct {
	limit     atomic.Int64
	inFlight  atomic.Int64
	shed      atomic.Uint64 // requests refused for lack of a slot
	arriving  arrivingBodies
	unwritten *responses.Unwritten
}

// NewLoadLimit returns a LoadLimit for the given number of requests, bytes of bodies that are
// arriving and bytes of unwritten responses, and registers its metrics.
func NewLoadLimit(limit int, bodyBytes, unwrittenBytes int64, registry prometheus.Registerer) (*LoadLimit, error) {
	l := newLoadLimit(limit, bodyBytes, unwrittenBytes)
	return l, l.register(registry)
}

func (l *LoadLimit) register(registry prometheus.Registerer) error {
	inFlightGauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_http_requests_in_flight",
		Help: "Requests in flight, without those whose body is arriving.",
	}, func() float64 { return float64(l.inFlight.Load()) })
	limitGauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_http_requests_in_flight_limit",
		Help: "Limit of requests in flight, http.max_in_flight.",
	}, func() float64 { return float64(l.limit.Load()) })
	shedCounter := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "opsgate_http_requests_shed_total",
		Help: "Requests refused with 503. in_flight: http.max_in_flight were in flight when the header, or the " +
			"body, had arrived.",
		ConstLabels: prometheus.Labels{"cause": "in_flight"},
	}, func() float64 { return float64(l.shed.Load()) })
	var errs []error
	for _, metric := range append(l.unwritten.Collectors(), inFlightGauge, limitGauge, shedCounter) {
		errs = append(errs, registry.Register(metric))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register the metrics of the load limit: %w", err)
	}
	return nil
}

func newLoadLimit(limit int, bodyBytes, unwrittenBytes int64) *LoadLimit {
	l := &LoadLimit{unwritten: responses.NewUnwritten(unwrittenBytes)}
	l.arriving.limit = bodyBytes
	l.SetLimit(limit)
	return l
}

func unlimitedLoadLimit() *LoadLimit { return newLoadLimit(math.MaxInt, math.MaxInt64, math.MaxInt64) }

// SetLimit changes the limit of requests in flight. It has no effect on requests that are already
// in flight.
func (l *LoadLimit) SetLimit(limit int) { l.limit.Store(int64(limit)) }

// Stats returns the number of requests in flight, their limit, and the number of requests shed so
// far.
func (l *LoadLimit) Stats() (inFlight, limit int, shed uint64) {
	return int(l.inFlight.Load()), int(l.limit.Load()), l.shed.Load()
}

// CutOffOverdue calls [responses.Unwritten.CutOffOverdue].
func (l *LoadLimit) CutOffOverdue(now time.Time) { l.unwritten.CutOffOverdue(now) }

// snapshot returns a LoadLimit for a dry run: independent of l, without registered metrics, with
// the same limit and number of requests in flight. It does not limit memory, because a dry run has
// neither body nor response.
func (l *LoadLimit) snapshot() *LoadLimit {
	inFlight, limit, _ := l.Stats()
	s := newLoadLimit(limit, math.MaxInt64, math.MaxInt64)
	s.inFlight.Store(int64(inFlight))
	return s
}

// tryAcquire takes a slot, which the caller must return with release. It returns false if the limit
// is reached.
func (l *LoadLimit) tryAcquire() bool {
	for n := l.inFlight.Load(); n < l.limit.Load(); n = l.inFlight.Load() {
		if l.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
	l.shed.Add(1)
	return false
}

func (l *LoadLimit) release() { l.inFlight.Add(-1) }

// takeSlot takes an in-flight slot for the request, or returns the problem of an overload.
func (g *Gateway) takeSlot(r *Request) error {
	r.holdsSlot = g.options.LoadLimit.tryAcquire()
	if r.shed = !r.holdsSlot; r.shed {
		return g.overloaded
	}
	return nil
}

// releaseSlot releases the request's in-flight slot. It is idempotent.
func (g *Gateway) releaseSlot(r *Request) {
	if r.holdsSlot {
		r.holdsSlot = false
		g.options.LoadLimit.release()
	}
}
