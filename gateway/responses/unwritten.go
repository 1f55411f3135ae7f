package responses

import (
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The shares of a site (netaddr.SiteOf), of a token and of the anonymous requests of a site are the
// limit divided by these.
const (
	siteDivisor      = 2
	tokenDivisor     = 4
	anonymousDivisor = 8 // their responses are small
)

// Causes of a response that was cut off.
const (
	cutToken     = "token"
	cutAnonymous = "anonymous"
	cutSite      = "network"
	cutTotal     = "total"
	cutDeadline  = "deadline"
)

// Unwritten accounts the memory of responses that are being written. A client that does not read
// would otherwise hold any amount of it. Past a limit, a new response cuts off older ones:
//
//   - past the share of its token, the oldest of the token;
//   - past the share of the anonymous requests of its site, the oldest of those;
//   - past the share of its site, the oldest of the client that holds the most there;
//   - past the whole limit, the oldest of the client that holds the most, in the site that holds
//     the most.
//
// A client is a token in a site, or all anonymous requests of a site. So a client within its share
// loses no response while another one holds more. A new response is never refused, and does not cut
// off itself. Unwritten is safe for concurrent use.
type Unwritten struct {
	limit  int64
	cutOff *prometheus.CounterVec

	mu        sync.Mutex
	bytes     int64  // of all responses whose handlers have not returned
	openBytes int64  // of those that are not cut off; the limits apply to them
	sequence  uint64 // of the last response
	clients   map[clientKey]*client
	sites     map[netip.Prefix]*clientGroup
	tokens    map[string]*clientGroup

	// Unused clients and groups, so that a response allocates none. There are at most as many as
	// there were responses at once.
	spareClients []*client
	spareGroups  []*clientGroup
}

type clientKey struct {
	site    netip.Prefix
	tokenID string // "" for anonymous requests
}

// A client has its responses that are not cut off, in a list from the oldest to the newest.
type client struct {
	clientKey
	bytes                 int64
	siteGroup, tokenGroup *clientGroup // tokenGroup is nil for anonymous requests
	oldest, newest        *pending
}

// A clientGroup is the clients of a site or of a token.
type clientGroup struct {
	bytes   int64
	clients []*client
}

// A pending response is one that is being written. It can be reused after end.
type pending struct {
	bytes    int64
	deadline time.Time            // after which CutOffOverdue cuts it off; zero for none; only of anonymous requests
	aborter  interface{ abort() } // abort makes the write return; it is called at most once, and end waits for it

	client       *client
	sequence     uint64
	older, newer *pending       // of the same client
	cause        string         // why it was cut off; "" if it was not
	aborting     sync.WaitGroup // from the cut until abort has returned
	nextToAbort  *pending       // in the list of those to be aborted
}

// NewUnwritten returns an Unwritten that accounts at most as many bytes.
func NewUnwritten(limit int64) *Unwritten {
	u := &Unwritten{
		limit: limit, clients: make(map[clientKey]*client), sites: make(map[netip.Prefix]*clientGroup),
		tokens: make(map[string]*clientGroup),
		cutOff: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "opsgate_http_responses_cut_off_total",
			Help: "Responses that their clients did not read and that were cut off, by the bound.",
		}, []string{"cause"}),
	}
	for _, cause := range []string{cutToken, cutAnonymous, cutSite, cutTotal, cutDeadline} {
		u.cutOff.WithLabelValues(cause)
	}
	return u
}

// Collectors returns the metrics of u.
func (u *Unwritten) Collectors() []prometheus.Collector {
	return []prometheus.Collector{u.cutOff, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_http_unwritten_response_bytes",
		Help: "Memory of responses that are being written: bodies, and a fixed part for each.",
	}, func() float64 {
		u.mu.Lock()
		defer u.mu.Unlock()
		return float64(u.bytes)
	}), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_http_unwritten_response_limit_bytes",
		Help: "Limit of the memory of responses that are being written.",
	}, func() float64 { return float64(u.limit) })}
}

// begin accounts a response until end, and cuts off others if a limit is exceeded.
func (u *Unwritten) begin(p *pending, from clientKey) { u.abort(u.add(p, from)) }

// CutOffOverdue cuts off responses to anonymous requests that were not read in time. It must be
// called twice a second.
func (u *Unwritten) CutOffOverdue(now time.Time) { u.abort(u.markOverdue(now)) }

// abort aborts a list of responses, without the lock, because it may wait for the server's
// goroutine of a connection.
func (u *Unwritten) abort(list *pending) {
	for list != nil {
		p, next := list, list.nextToAbort
		u.count(p.cause)
		p.aborter.abort()
		p.aborting.Done() // p may be reused from here on
		list = next
	}
}

func (u *Unwritten) count(cause string) { u.cutOff.WithLabelValues(cause).Inc() }

// end removes a response whose write has returned, and returns why it was cut off, or "". It waits
// for a running abort, which must not use the response writer after the handler has returned.
func (u *Unwritten) end(p *pending) (cause string) {
	u.mu.Lock()
	if p.cause == "" {
		u.remove(p)
	}
	u.bytes -= p.bytes
	u.mu.Unlock()
	p.aborting.Wait()
	return p.cause
}

// add adds a response, and returns the list of those to be cut off for it. It seldom allocates: all
// other responses would wait for the lock meanwhile.
func (u *Unwritten) add(p *pending, from clientKey) (toAbort *pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sequence++
	p.sequence = u.sequence
	u.append(p, u.client(from))
	u.bytes += p.bytes
	for {
		oldest, cause := u.nextToCut(p)
		if oldest == nil {
			return toAbort
		}
		toAbort = u.markCut(oldest, cause, toAbort)
	}
}

// markOverdue removes the responses whose deadline has passed, and returns the list of them.
func (u *Unwritten) markOverdue(now time.Time) (toAbort *pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for from, c := range u.clients {
		if from.tokenID != "" {
			continue
		}
		for next := c.oldest; next != nil; {
			p := next
			next = p.newer
			if !p.deadline.IsZero() && !p.deadline.After(now) {
				toAbort = u.markCut(p, cutDeadline, toAbort)
			}
		}
	}
	return toAbort
}

// markCut removes a response to be cut off, and returns the list with it at the beginning.
func (u *Unwritten) markCut(p *pending, cause string, list *pending) *pending {
	u.remove(p)
	p.cause, p.nextToAbort = cause, list
	p.aborting.Add(1)
	return p
}

// nextToCut returns the next response to be cut off after a response was added, and the limit that
// is exceeded. It returns nil if no limit is exceeded, or if only the added response exceeds it.
func (u *Unwritten) nextToCut(added *pending) (oldest *pending, cause string) {
	c := added.client
	if c.tokenGroup == nil && c.bytes > u.limit/anonymousDivisor && c.oldest != added {
		return c.oldest, cutAnonymous
	}
	if c.tokenGroup != nil && c.tokenGroup.bytes > u.limit/tokenDivisor {
		if oldest = c.tokenGroup.oldest(); oldest != added {
			return oldest, cutToken
		}
	}
	if c.siteGroup.bytes > u.limit/siteDivisor {
		if most := c.siteGroup.largest(added); most != nil {
			return most.oldest, cutSite
		}
	}
	if u.openBytes > u.limit {
		if most := u.largest(added); most != nil {
			return most.oldest, cutTotal
		}
	}
	return nil, ""
}

// largest returns the client with the most bytes in the site with the most bytes, or nil. It ignores
// clients and sites whose only response is the added one. It runs only past the limit, and visits
// each site.
func (u *Unwritten) largest(added *pending) (most *client) {
	bytes := int64(-1)
	for _, site := range u.sites {
		if site.bytes > bytes {
			if c := site.largest(added); c != nil {
				most, bytes = c, site.bytes
			}
		}
	}
	return most
}

// largest returns the client with the most bytes, or nil. It ignores a client whose only response
// is the added one: that is the newest of all, so it is alone if it is also the client's oldest.
func (g *clientGroup) largest(added *pending) (most *client) {
	for _, c := range g.clients {
		if c.oldest != added && (most == nil || c.bytes > most.bytes) {
			most = c
		}
	}
	return most
}

func (g *clientGroup) oldest() *pending {
	oldest := g.clients[0].oldest
	for _, c := range g.clients[1:] {
		if c.oldest.sequence < oldest.sequence {
			oldest = c.oldest
		}
	}
	return oldest
}
