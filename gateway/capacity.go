package gateway

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Capacity limits the number of requests in flight and the memory of responses that are being written. All Gateways of a process share
// one, so that the limits hold across reloads. It is safe for concurrent use.
type Capacity struct {
	limit     atomic.Int64
	inFlight  atomic.Int64
	shed      prometheus.Counter
	shedCount atomic.Uint64 // same count as shed, readable in the process
	unwritten *unwritten
}

// NewCapacity returns a Capacity for the given number of requests and bytes of unwritten responses, and registers its metrics.
func NewCapacity(limit int, unwrittenBytes int64, registry prometheus.Registerer) (*Capacity, error) {
	c := newCapacity(limit, unwrittenBytes)
	inFlightGauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_http_requests_in_flight",
		Help: "Requests in flight.",
	}, func() float64 { return float64(c.inFlight.Load()) })
	limitGauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_http_requests_in_flight_limit",
		Help: "Limit of requests in flight.",
	}, func() float64 { return float64(c.limit.Load()) })
	var errs []error
	for _, metric := range append(c.unwritten.collectors(), inFlightGauge, limitGauge, c.shed) {
		errs = append(errs, registry.Register(metric))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the metrics of the gateway's capacity: %w", err)
	}
	return c, nil
}

func newCapacity(limit int, unwrittenBytes int64) *Capacity {
	c := &Capacity{unwritten: newUnwritten(unwrittenBytes), shed: prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "opsgate_http_requests_shed_total",
		Help:        "Requests rejected before they were read, by cause. in_flight: the limit of requests in flight was reached.",
		ConstLabels: prometheus.Labels{"cause": "in_flight"},
	})}
	c.SetLimit(limit)
	return c
}

// unlimitedCapacity returns a Capacity that admits every request.
func unlimitedCapacity() *Capacity { return newCapacity(math.MaxInt, math.MaxInt64) }

// SetLimit changes the limit of requests in flight. It does not affect requests that are already in flight.
func (c *Capacity) SetLimit(limit int) { c.limit.Store(int64(limit)) }

// Load returns the number of requests in flight, their limit, and the number of requests shed so far.
func (c *Capacity) Load() (inFlight, limit int, shed uint64) {
	return int(c.inFlight.Load()), int(c.limit.Load()), c.shedCount.Load()
}

// CutOffOverdue cuts off responses to anonymous requests that were not read in time. It must be called several times a second.
func (c *Capacity) CutOffOverdue(now time.Time) { c.unwritten.overdue(now) }

// snapshot returns a Capacity with the same limit and requests in flight, independent of c and without registered metrics.
func (c *Capacity) snapshot() *Capacity {
	inFlight, limit, _ := c.Load()
	s := newCapacity(limit, c.unwritten.limit)
	s.inFlight.Store(int64(inFlight))
	return s
}

// tryAcquire takes a slot, to be returned with release, or returns false if the limit is reached.
func (c *Capacity) tryAcquire() bool {
	for n := c.inFlight.Load(); n < c.limit.Load(); n = c.inFlight.Load() {
		if c.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
	c.shedCount.Add(1)
	c.shed.Inc()
	return false
}

func (c *Capacity) release() { c.inFlight.Add(-1) }

// admit takes an in-flight slot for the request.
func (g *Gateway) admit(r *Request) error {
	if !g.options.Capacity.tryAcquire() {
		return g.overloaded
	}
	r.admitted, r.holdsSlot = true, true
	return nil
}

// releaseSlot releases the request's in-flight slot. It is idempotent.
func (g *Gateway) releaseSlot(r *Request) {
	if r.holdsSlot {
		r.holdsSlot = false
		g.options.Capacity.release()
	}
}

// releaseConnection releases the connection of an authenticated request.
func (r *Request) releaseConnection() {
	if r.connection != nil {
		r.connection.Release()
		r.connection = nil
	}
}
