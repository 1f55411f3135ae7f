package responses

import (
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A site (netaddr.SiteOf), a token, and the anonymous requests of a site may each use a share of
// the limit: the limit divided by siteDivisor, tokenDivisor or anonymousDivisor.
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

// Unwritten accounts the memory of responses that are being written. Without a limit, a client that
// does not read could use any amount of memory. A client is a token in a site, or all anonymous
// requests of a site. If a new response exceeds a limit, older responses are cut off:
//
//   - past the share of its token: the oldest response of the token;
//   - past the share of the anonymous requests of its site: the oldest response to an anonymous
//     request of the site;
//   - past the share of its site: the oldest response of the client with the most bytes in the
//     site;
//   - past the whole limit: the oldest response of the client with the most bytes, in the site with
//     the most bytes.
//
// So a client within its share loses no response while another client holds more. A new response is
// never refused, and is not cut off by its own arrival.
//
// To cut off a response takes two steps: markCut removes it from the accounts under the lock, and
// abort ends its write without the lock. Unwritten is safe for concurrent use.
type Unwritten struct {
	limit  int64
	cutOff *prometheus.CounterVec

	mu        sync.Mutex
	bytes     int64  // of all responses whose handlers have not returned
	openBytes int64  // of the responses that are not cut off; the limits apply to this sum
	sequence  uint64 // of the last response
	clients   map[clientKey]*client
	sites     map[netip.Prefix]*clientGroup
	tokens    map[string]*clientGroup

	// Unused clients and groups, so that a new response allocates none. Their number is at most the
	// highest number of responses at one time.
	spareClients []*client
	spareGroups  []*clientGroup
}

type clientKey struct {
	site    netip.Prefix
	tokenID string // "" for anonymous requests
}

// A client has a list of its responses that are not cut off, from the oldest to the newest.
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

// A pending is a response that is being written. It can be reused after end.
type pending struct {
	bytes int64
	// deadline is the time after which CutOffOverdue cuts off the response; zero for none. Only
	// responses to anonymous requests have one.
	deadline time.Time
	// abort makes the write return. It is called at most once, and end waits until it has returned.
	aborter interface{ abort() }

	client       *client
	sequence     uint64
	older, newer *pending       // of the same client
	cause        string         // why the response was cut off; "" if it was not
	aborting     sync.WaitGroup // from markCut until abort has returned
	next         *pending       // in the list of responses to abort
}

// NewUnwritten returns an Unwritten whose responses may use limit bytes.
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

// begin accounts a response until end is called, and cuts off other responses if a limit is
// exceeded.
func (u *Unwritten) begin(p *pending, from clientKey) { u.abort(u.add(p, from)) }

// CutOffOverdue cuts off the responses to anonymous requests whose deadline has passed. It must be
// called twice a second.
func (u *Unwritten) CutOffOverdue(now time.Time) { u.abort(u.markOverdue(now)) }

// abort aborts the writes of a list of responses. It must be called without the lock, because it
// may wait for the goroutine in which net/http serves a connection.
func (u *Unwritten) abort(list *pending) {
	for list != nil {
		p, next := list, list.next
		u.count(p.cause)
		p.aborter.abort()
		p.aborting.Done() // p may be reused from here on
		list = next
	}
}

func (u *Unwritten) count(cause string) { u.cutOff.WithLabelValues(cause).Inc() }

// end removes a response whose write has returned, and returns why the response was cut off, or "".
// It waits for an abort in progress: after the handler has returned, abort must not use the
// response writer.
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

// add adds a response, and returns the list of the responses to abort because of it. It seldom
// allocates, because all other responses wait for the lock.
func (u *Unwritten) add(p *pending, from clientKey) (toAbort *pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sequence++
	p.sequence = u.sequence
	u.push(p, u.client(from))
	u.bytes += p.bytes
	for {
		oldest, cause := u.overLimit(p)
		if oldest == nil {
			return toAbort
		}
		toAbort = u.markCut(oldest, cause, toAbort)
	}
}

// markOverdue marks the responses whose deadline has passed as cut off, and returns their list.
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

// markCut marks a response as cut off and removes it from its client. It returns the list, with the
// response at the beginning.
func (u *Unwritten) markCut(p *pending, cause string, list *pending) *pending {
	u.remove(p)
	p.cause, p.next = cause, list
	p.aborting.Add(1)
	return p
}

// overLimit returns the response to cut off because a limit is exceeded after a response was added,
// and that limit as the cause. It returns nil if no limit is exceeded, or if only the added
// response could be cut off.
func (u *Unwritten) overLimit(added *pending) (oldest *pending, cause string) {
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

// largest returns the client with the most bytes in the site with the most bytes, or nil. It
// ignores clients and sites whose only response is the added one. It visits each site, but runs
// only if the whole limit is exceeded.
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
// is the added one. The added response is the newest of all, so if it is a client's oldest, the
// client has no other.
func (g *clientGroup) largest(added *pending) (most *client) {
	for _, c := range g.clients {
		if c.oldest != added && (most == nil || c.bytes > most.bytes) {
			most = c
		}
	}
	return most
}

// oldest returns the oldest response of the group.
func (g *clientGroup) oldest() *pending {
	oldest := g.clients[0].oldest
	for _, c := range g.clients[1:] {
		if c.oldest.sequence < oldest.sequence {
			oldest = c.oldest
		}
	}
	return oldest
}
