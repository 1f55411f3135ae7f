package console

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/admin"
)

// What a Console does where its Options do not say.
const (
	defaultSampleEvery = 10 * time.Second
	defaultStateEvery  = time.Second
	defaultWriteWithin = 10 * time.Second
)

// maxStreams is how many may follow the events of one gateway at once.
const maxStreams = 16

// A Source tells how a gateway stands. It is asked about once a second while anybody looks, and must not wait for others.
type Source interface {
	// Dependencies are the things that the gateway needs, in the order in which they are shown.
	Dependencies() []Dependency
	// Store says where budgets are counted, and how that stands.
	Store() admin.Store
	// Busiest returns the tokens that ask most, at most n of them, the busiest first.
	Busiest(n int) []admin.BusyToken
	// Configuration returns what is in force. Its Values are not looked at, and may be left out.
	Configuration() admin.Configuration
}

// Options are what a Console is made of. Metrics and Source are required.
type Options struct {
	Metrics prometheus.Gatherer
	Source  Source
	Host    string           // on which the gateway runs; "" for not known
	Version string           // of the program
	Clock   func() time.Time // of the wall; nil for time.Now

	SampleEvery time.Duration // between two points of the history; 0 for 10 s, which makes it last a quarter of an hour
	StateEvery  time.Duration // between two events of one stream; 0 for 1 s
	WriteWithin time.Duration // how long a reader may take for an event; 0 for 10 s
}

// A Console serves the page and its events.
type Console struct {
	options Options
	page    document
	history *history
	streams chan struct{} // an element for each
	drained chan struct{}
	drain   sync.Once

	mu     sync.Mutex
	latest frames
}

// New makes a Console. Its history begins with Run.
func New(o Options) *Console {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.SampleEvery = orDefault(o.SampleEvery, defaultSampleEvery)
	o.StateEvery = orDefault(o.StateEvery, defaultStateEvery)
	o.WriteWithin = orDefault(o.WriteWithin, defaultWriteWithin)
	return &Console{
		options: o,
		page:    newDocument(),
		history: newHistory(o.SampleEvery),
		streams: make(chan struct{}, maxStreams),
		drained: make(chan struct{}),
	}
}

func orDefault(d, byDefault time.Duration) time.Duration {
	if d == 0 {
		return byDefault
	}
	return d
}

// Run samples the metrics until ctx ends; then it returns nil.
func (c *Console) Run(ctx context.Context) error {
	tick := time.NewTicker(c.options.SampleEvery)
	defer tick.Stop()
	for {
		c.history.add(c.read(), c.options.Clock())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// read reads the metrics. Where one of them cannot tell, the others still do.
func (c *Console) read() readings {
	families, _ := c.options.Metrics.Gather()
	return readingsOf(families)
}

// Drain has each stream of events end with how the gateway stands then, and lets no other begin: nobody waits for those who look.
func (c *Console) Drain() { c.drain.Do(func() { close(c.drained) }) }

func (c *Console) isDraining() bool {
	select {
	case <-c.drained:
		return true
	default:
		return false
	}
}

// Page answers with the document. It asks for nobody's credentials: there is nothing of the gateway in it.
func (c *Console) Page(w http.ResponseWriter, _ *http.Request) {
	c.page.serve(w)
}
