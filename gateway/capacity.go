package gateway

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// A Capacity bounds how many requests are worked on at once, and how many downloads of documentation. The Gateways of a process share
// one, as they share the process: a new configuration has the same requests in flight. Its methods are safe for concurrent use.
type Capacity struct {
	most      atomic.Int64
	underWay  atomic.Int64
	refused   prometheus.Counter
	shed      atomic.Uint64 // the same count as refused, readable in the process
	downloads downloads
}

// NewCapacity returns a Capacity of so many requests, and registers its metrics.
func NewCapacity(most int, registry prometheus.Registerer) (*Capacity, error) {
	c := newCapacity(most)
	underWay := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_http_requests_in_flight",
		Help: "Requests being worked on.",
	}, func() float64 { return float64(c.underWay.Load()) })
	bound := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_http_requests_in_flight_limit",
		Help: "How many requests may be worked on at once.",
	}, func() float64 { return float64(c.most.Load()) })
	if err := errors.Join(registry.Register(underWay), registry.Register(bound), registry.Register(c.refused),
		registry.Register(c.downloads.cutOff)); err != nil {
		return nil, fmt.Errorf("register the metrics of the gateway's capacity: %w", err)
	}
	return c, nil
}

func newCapacity(most int) *Capacity {
	c := &Capacity{downloads: newDownloads(), refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "opsgate_http_requests_shed_total",
		Help:        "Requests that were refused unread, by cause. in_flight: as many as may be were worked on.",
		ConstLabels: prometheus.Labels{"cause": "in_flight"},
	})}
	c.Bound(most)
	return c
}

// unbounded returns a Capacity that refuses nothing.
func unbounded() *Capacity { return newCapacity(math.MaxInt) }

// Bound changes how many requests may be worked on at once. Those that are go on.
func (c *Capacity) Bound(most int) { c.most.Store(int64(most)) }

// Load returns how many requests are worked on, how many may be, and how many have been refused so far.
func (c *Capacity) Load() (underWay, most int, refused uint64) {
	return int(c.underWay.Load()), int(c.most.Load()), c.shed.Load()
}

// take takes a place for a request, which is to be given back, or returns false where there is none.
func (c *Capacity) take() bool {
	for n := c.underWay.Load(); n < c.most.Load(); n = c.underWay.Load() {
		if c.underWay.CompareAndSwap(n, n+1) {
			return true
		}
	}
	c.shed.Add(1)
	c.refused.Inc()
	return false
}

func (c *Capacity) giveBack() { c.underWay.Add(-1) }

// admit refuses a request while as many as may be are worked on, before anything else is spent on it.
func (g *Gateway) admit(r *Request) error {
	if !g.capacity.take() {
		return g.overloaded
	}
	r.admitted, r.inside = true, true
	return nil
}

// leave makes room for another request, once, and has the connection count as waiting.
func (g *Gateway) leave(r *Request) {
	if r.inside {
		r.inside = false
		g.capacity.giveBack()
	}
	if r.connection != nil {
		r.connection.Release()
		r.connection = nil
	}
}

func explainCapacity(_ *Question, r *Request) finding {
	underWay, most, _ := r.gateway.capacity.Load()
	if underWay >= most {
		return finding{err: r.gateway.overloaded}
	}
	return finding{detail: fmt.Sprintf("%d requests are under way", underWay)}
}
