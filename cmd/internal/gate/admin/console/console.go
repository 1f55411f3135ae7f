package console

import (
	"cmp"
	"net/http"
	"sync"
	"time"

	"opsgate/cmd/internal/gate/admin"
)

// Defaults of Options.
const (
	defaultStateEvery   = time.Second
	defaultWriteTimeout = 10 * time.Second
)

// maxStreams is the maximum number of concurrent event streams of one gateway.
const maxStreams = 16

// Source reads the state of a gateway. It is called about once a second while a client is connected. Its methods must not block.
type Source interface {
	// Dependencies returns the state of each dependency by name.
	Dependencies() map[string]admin.Dependency
	// Store returns the state of the rate limit store.
	Store() admin.Store
	// Busiest returns at most n tokens with the most requests, in descending order.
	Busiest(n int) []admin.BusyToken
	// Names returns the names of cached tokens and their teams, by those of the ids that have one.
	Names(ids []string) map[string]string
	// Configuration returns the configuration in force. Of its Values, the console uses those of authn.stale_for and fresh_for.
	Configuration() admin.Configuration
}

// Options configure a Console. Sampler, Source and Clock are required.
type Options struct {
	Sampler *Sampler // the caller runs it
	Source  Source
	Host    string           // host name of the gateway; "" if unknown
	Version string           // of the program
	Clock   func() time.Time // wall clock

	StateEvery   time.Duration // interval of state events in one stream; 0 for 1 s
	WriteTimeout time.Duration // of one event; 0 for 10 s
}

// Console serves the page and its events.
type Console struct {
	*Sampler

	options Options
	page    document
	streams chan struct{} // one element for each open stream
	drained chan struct{}
	drain   sync.Once

	mu     sync.Mutex
	latest frames
}

// New returns a Console.
func New(o Options) *Console {
	o.StateEvery = cmp.Or(o.StateEvery, defaultStateEvery)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, defaultWriteTimeout)
	return &Console{
		Sampler: o.Sampler,
		options: o,
		page:    newDocument(),
		streams: make(chan struct{}, maxStreams),
		drained: make(chan struct{}),
	}
}

// Drain sends a last state event on each stream, closes the streams, and rejects new ones.
func (c *Console) Drain() { c.drain.Do(func() { close(c.drained) }) }

func (c *Console) isDraining() bool {
	select {
	case <-c.drained:
		return true
	default:
		return false
	}
}

// Page serves the document, which contains no data of the gateway.
func (c *Console) Page(w http.ResponseWriter, _ *http.Request) {
	c.page.serve(w)
}
