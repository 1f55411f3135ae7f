package gateway

import (
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A site (netaddr.SiteOf) may hold limit/siteDivisor, a token limit/tokenDivisor, the anonymous
// requests of a site limit/anonymousDivisor.
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

// unwrittenResponses accounts the memory of responses that are being written. A client that does
// not read would otherwise hold any amount of it. Past the limit, a new response cuts off older
// ones:
//
//   - past the share of its token, the oldest of the token;
//   - past the share of anonymous requests of its site, the oldest of those;
//   - past the share of its site, the oldest of the token that holds the most there, where
//     anonymous requests count as one token;
//   - past the whole limit, the oldest of the token that holds the most, in the site that holds
//     the most.
//
// So a token within its share loses no response while another one holds more. A new response is
// never refused, and does not cut off itself.
type unwrittenResponses struct {
	limit  int64
	cutOff *prometheus.CounterVec

	mu        sync.Mutex
	bytes     int64  // of all responses whose handlers have not returned
	openBytes int64  // of those that are not cut off; the bounds apply to them
	sequence  uint64 // of the last response
	holders   map[origin]*holder
	sites     map[netip.Prefix]*group
	tokens    map[string]*group

	// Unused holders and groups, so that a response allocates none. There are at most as many as
	// there were responses at once.
	spareHolders []*holder
	spareGroups  []*group
}

// An origin is a token in a site, or the anonymous requests of a site.
type origin struct {
	site    netip.Prefix
	tokenID string // "" for anonymous requests
}

// A holder has the responses of an origin that are not cut off.
type holder struct {
	origin
	bytes                 int64
	siteGroup, tokenGroup *group // tokenGroup is nil for anonymous requests
	oldest, newest        *unwrittenResponse
}

// A group is the holders of a site or of a token.
type group struct {
	bytes   int64
	holders []*holder
}

// An unwrittenResponse is a response that is being written. Request has one, which is reused after
// end.
type unwrittenResponse struct {
	bytes    int64
	deadline time.Time            // after which cutOffOverdue cuts it off; zero for none; only of anonymous requests
	aborter  interface{ abort() } // abort makes the write return; it is called at most once, and end waits for it

	holder       *holder
	sequence     uint64
	older, newer *unwrittenResponse
	cause        string             // why it was cut off; "" if it was not
	aborting     sync.WaitGroup     // from the cut until abort has returned
	nextToAbort  *unwrittenResponse // the next to be aborted
}

func newUnwritten(limit int64) *unwrittenResponses {
	u := &unwrittenResponses{
		limit: limit, holders: make(map[origin]*holder), sites: make(map[netip.Prefix]*group),
		tokens: make(map[string]*group),
		cutOff: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "opsgate_http_responses_cut_off_total",
			Help: "Responses that were cut off because their clients did not read them, by the bound that was exceeded.",
		}, []string{"cause"}),
	}
	for _, cause := range []string{cutToken, cutAnonymous, cutSite, cutTotal, cutDeadline} {
		u.cutOff.WithLabelValues(cause)
	}
	return u
}

// collectors returns the metrics.
func (u *unwrittenResponses) collectors() []prometheus.Collector {
	return []prometheus.Collector{u.cutOff, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_http_unwritten_response_bytes",
		Help: "Memory of responses that are being written: bodies, and a fixed part for each.",
	}, func() float64 {
		u.mu.Lock()
		defer u.mu.Unlock()
		return float64(u.bytes)
	}), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_http_unwritten_response_limit_bytes",
		Help: "Limit of the memory of responses that are being written: an eighth of the memory limit, if there is one.",
	}, func() float64 { return float64(u.limit) })}
}

// begin accounts a response until end, and cuts off others if a bound is exceeded.
func (u *unwrittenResponses) begin(p *unwrittenResponse, from origin) { u.abort(u.add(p, from)) }

// cutOffOverdue cuts off the responses whose deadline has passed.
func (u *unwrittenResponses) cutOffOverdue(now time.Time) { u.abort(u.markOverdue(now)) }

// abort aborts a list of responses, without the lock, because it may wait for the server's
// goroutine of a connection.
func (u *unwrittenResponses) abort(list *unwrittenResponse) {
	for list != nil {
		p, next := list, list.nextToAbort
		u.count(p.cause)
		p.aborter.abort()
		p.aborting.Done() // p may be reused from here on
		list = next
	}
}

// count counts a response that was cut off.
func (u *unwrittenResponses) count(cause string) { u.cutOff.WithLabelValues(cause).Inc() }

// end removes a response whose write has returned, and returns why it was cut off, or "". It waits
// for a running abort, which must not use the response writer after the handler has returned.
func (u *unwrittenResponses) end(p *unwrittenResponse) (cause string) {
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
func (u *unwrittenResponses) add(p *unwrittenResponse, from origin) (toAbort *unwrittenResponse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sequence++
	p.sequence = u.sequence
	u.append(p, u.holder(from))
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
func (u *unwrittenResponses) markOverdue(now time.Time) (toAbort *unwrittenResponse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for from, h := range u.holders {
		if from.tokenID != "" {
			continue
		}
		for next := h.oldest; next != nil; {
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
func (u *unwrittenResponses) markCut(p *unwrittenResponse, cause string, list *unwrittenResponse) *unwrittenResponse {
	u.remove(p)
	p.cause, p.nextToAbort = cause, list
	p.aborting.Add(1)
	return p
}

// nextToCut returns the next response to be cut off after a response was added, and the bound that
// is exceeded. It returns nil if no bound is exceeded, or if only the added response exceeds it.
func (u *unwrittenResponses) nextToCut(added *unwrittenResponse) (oldest *unwrittenResponse, cause string) {
	h := added.holder
	if h.tokenGroup == nil && h.bytes > u.limit/anonymousDivisor && h.oldest != added {
		return h.oldest, cutAnonymous
	}
	if h.tokenGroup != nil && h.tokenGroup.bytes > u.limit/tokenDivisor {
		if oldest = h.tokenGroup.oldest(); oldest != added {
			return oldest, cutToken
		}
	}
	if h.siteGroup.bytes > u.limit/siteDivisor {
		if most := h.siteGroup.largest(added); most != nil {
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

// largest returns the holder with the most bytes in the site with the most bytes, or nil. It
// ignores holders and sites whose only response is the added one. It runs only past the limit, and
// visits each site.
func (u *unwrittenResponses) largest(added *unwrittenResponse) (most *holder) {
	bytes := int64(-1)
	for _, site := range u.sites {
		if site.bytes > bytes {
			if h := site.largest(added); h != nil {
				most, bytes = h, site.bytes
			}
		}
	}
	return most
}

// largest returns the holder with the most bytes, or nil. It ignores a holder whose only response
// is the added one.
func (g *group) largest(added *unwrittenResponse) (most *holder) {
	for _, h := range g.holders {
		// the added one is the newest of all: if it is also the oldest here, it is the only one
		onlyAdded := h.oldest == added
		if !onlyAdded && (most == nil || h.bytes > most.bytes) {
			most = h
		}
	}
	return most
}

// oldest returns the oldest response.
func (g *group) oldest() *unwrittenResponse {
	oldest := g.holders[0].oldest
	for _, h := range g.holders[1:] {
		if h.oldest.sequence < oldest.sequence {
			oldest = h.oldest
		}
	}
	return oldest
}
