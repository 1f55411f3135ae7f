package responses

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"opsgate/internal/netaddr"
)

// writes are pending responses of a test, by name.
type writes struct {
	*Unwritten

	byName  map[string]*pending
	aborted []string
}

type namedWrite struct {
	writes *writes
	name   string
}

func (n namedWrite) abort() { n.writes.aborted = append(n.writes.aborted, n.name) }

func newWrites(limit int64) *writes {
	return &writes{Unwritten: NewUnwritten(limit), byName: make(map[string]*pending)}
}

// write begins a response to 10.0.site.0/24.
func (w *writes) write(name string, site int, token string, bytes int64, deadline ...time.Time) {
	p := &pending{bytes: bytes, aborter: namedWrite{w, name}}
	if len(deadline) > 0 {
		p.deadline = deadline[0]
	}
	w.byName[name] = p
	w.begin(p, clientKey{netaddr.SiteOf(netip.AddrFrom4([4]byte{10, 0, byte(site), 1})), token})
}

// mustAbort checks which responses were cut off, in this order.
func (w *writes) mustAbort(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(w.aborted, want) {
		t.Errorf("cut off: %v, want %v", w.aborted, want)
	}
}

// endAll ends all responses, and checks that none is accounted.
func (w *writes) endAll(t *testing.T) {
	t.Helper()
	for _, p := range w.byName {
		w.end(p)
	}
	if w.bytes != 0 || w.openBytes != 0 || len(w.clients) != 0 || len(w.sites) != 0 || len(w.tokens) != 0 {
		t.Errorf("after the end: %d bytes, %d open, %d clients", w.bytes, w.openBytes, len(w.clients))
	}
}

func TestUnwrittenResponsesOfATokenAreCutOffOldestFirst(t *testing.T) {
	w := newWrites(1000) // 250 per token
	w.write("a", 1, "one", 100)
	w.write("b", 2, "one", 100)
	w.write("other", 1, "two", 200)
	w.mustAbort(t)
	w.write("c", 1, "one", 100)
	w.mustAbort(t, "a")
	w.write("d", 2, "one", 100)
	w.mustAbort(t, "a", "b")
	if cause := w.end(w.byName["a"]); cause != cutToken {
		t.Errorf("cause %q", cause)
	}
	if cause := w.end(w.byName["c"]); cause != "" {
		t.Errorf("a response that was written has the cause %q", cause)
	}
	delete(w.byName, "a")
	delete(w.byName, "c")
	w.endAll(t)
}

func TestUnwrittenAnonymousResponsesOfASiteAreBounded(t *testing.T) {
	w := newWrites(800) // 100 per site
	w.write("a", 1, "", 60)
	w.write("elsewhere", 2, "", 60)
	w.write("token", 1, "one", 60)
	w.write("b", 1, "", 60)
	w.mustAbort(t, "a")
	w.endAll(t)
}

// The token that holds the most loses its oldest response, not a client that holds less and began
// earlier.
func TestUnwrittenResponsesOfASiteAreCutOffWhereMostAreHeld(t *testing.T) {
	w := newWrites(1000) // 500 per site
	w.write("reader", 1, "reads", 50)
	for i := range 5 {
		w.write(fmt.Sprint("unread ", i), 1, fmt.Sprint("token ", i/2), 100)
	}
	w.mustAbort(t, "unread 0")
	w.write("elsewhere", 2, "reads too", 200)
	w.mustAbort(t, "unread 0")
	w.endAll(t)
}

func TestUnwrittenResponsesPastTheLimitAreCutOffInTheLargestSite(t *testing.T) {
	w := newWrites(1000)
	w.write("reader", 9, "reads", 150)
	w.write("a1", 1, "one", 240)
	w.write("a2", 1, "two", 240)
	w.write("b1", 2, "three", 240)
	w.mustAbort(t)
	w.write("reader 2", 8, "reads too", 150)
	w.mustAbort(t, "a1")
	w.endAll(t)
}

func TestUnwrittenResponseDoesNotCutOffItself(t *testing.T) {
	w := newWrites(100)
	w.write("large", 1, "one", 1000)
	w.mustAbort(t)
	w.write("another", 1, "one", 1000)
	w.mustAbort(t, "large")
	w.endAll(t)
}

func TestOverdueAnonymousResponsesAreCutOff(t *testing.T) {
	w, now := newWrites(1<<20), time.Unix(1000, 0)
	w.write("page", 1, "", 100) // has no deadline of its own
	w.write("a", 1, "", 100, now.Add(time.Second))
	w.write("b", 2, "", 100, now.Add(2*time.Second))
	w.write("token", 1, "one", 100)
	w.CutOffOverdue(now)
	w.mustAbort(t)
	w.CutOffOverdue(now.Add(time.Second))
	w.mustAbort(t, "a")
	w.CutOffOverdue(now.Add(time.Minute))
	w.mustAbort(t, "a", "b")
	if cause := w.end(w.byName["b"]); cause != cutDeadline {
		t.Errorf("cause %q", cause)
	}
	delete(w.byName, "b")
	w.endAll(t)
}

// Accounting under the lock must not allocate: all other responses would wait for the garbage
// collector.
func TestAccountingOfAResponseDoesNotAllocate(t *testing.T) {
	u := NewUnwritten(1 << 20)
	p, from := &pending{bytes: 100}, clientKey{netaddr.SiteOf(netip.MustParseAddr("10.0.0.1")), "token"}
	if allocations := testing.AllocsPerRun(100, func() {
		u.begin(p, from)
		u.end(p)
	}); allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}
