package console

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"opsgate/cmd/internal/gate/admin"
)

// maxAge is the age up to which clients get the same state.
const maxAge = time.Second / 2

// Source reads the state of a gateway. It is called about once a second while the page is open. Its methods must not block.
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
}

// Console serves the page and its data.
type Console struct {
	*Sampler

	options  Options
	page     document
	draining atomic.Bool

	mu     sync.Mutex
	latest State
	readAt time.Time // of latest
}

// New returns a Console.
func New(o Options) *Console {
	return &Console{Sampler: o.Sampler, options: o, page: newDocument()}
}

// Drain makes the state that of a gateway that is draining.
func (c *Console) Drain() { c.draining.Store(true) }

// State responds with the [State]. Clients share it for up to half a second, because each reading gathers all metrics.
func (c *Console) State(w http.ResponseWriter, _ *http.Request) {
	admin.Respond(w, http.StatusOK, c.current())
}

// current returns the state, which the caller must not modify.
func (c *Console) current() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Clock()
	if age := now.Sub(c.readAt); age < 0 || age >= maxAge || c.latest.Draining != c.draining.Load() {
		c.latest, c.readAt = c.state(), now
	}
	return c.latest
}

// Page serves the document, which contains no data of the gateway.
func (c *Console) Page(w http.ResponseWriter, _ *http.Request) {
	c.page.serve(w)
}
