package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzip"

	"opsgate/authn"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
	"opsgate/ratelimit"
)

// Defaults of what Options leave open.
const (
	DefaultTimeout      = 10 * time.Second
	DefaultBodyTimeout  = 5 * time.Second
	DefaultMaxBodyBytes = 128 << 10 // decisions, "Requests"
	// DefaultMaxHeaderBytes is of a request's first line and header together.
	DefaultMaxHeaderBytes = 16 << 10
)

// An Authenticator tells whom a token stands for. Its errors wrap authn.ErrInvalidToken, authn.ErrUnavailable or authn.ErrContract.
type Authenticator interface {
	Authenticate(ctx context.Context, token string, from authn.Source) (*authn.Principal, error)
}

// A Limiter decides whether a token may make a request now, and takes back what a decision spent. A *ratelimit.UnavailableError
// says when to ask again; any other error is told to the client as the same. It is safe for concurrent use.
type Limiter interface {
	Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error)
	Refund(ctx context.Context, tokenID string, p *ratelimit.Policy, d ratelimit.Decision) error
}

// A DecisionObserver is told of every decision once, while the request waits: it must not block. The decision is the request's
// own and must not be kept.
type DecisionObserver interface {
	Decided(p *authn.Principal, a *ratelimit.Assignment, d *ratelimit.Decision)
}

// Options are what a Gateway is made of. Services, Authenticator, Limiter, Policies and Refunds are required.
type Options struct {
	Fleet      fleetv1.FleetServiceClient
	Monitoring monitoringv1.MonitoringServiceClient
	Incident   incidentv1.IncidentServiceClient
	Audit      auditv1.AuditServiceClient

	Authenticator Authenticator
	Limiter       Limiter
	Policies      *ratelimit.Policies
	Refunds       *Refunds    // outlives the Gateway
	RetrySlots    *RetrySlots // outlives the Gateway; nil for slots of its own

	Timeout        time.Duration            // of a whole request, where its route has none of its own; 0 for DefaultTimeout
	Timeouts       map[string]time.Duration // by the id of a route, over the route's own
	BodyTimeout    time.Duration            // for a request's body to arrive; 0 for DefaultBodyTimeout
	MaxBodyBytes   int64                    // of a request; 0 for DefaultMaxBodyBytes
	MaxHeaderBytes int64                    // of a request; 0 for DefaultMaxHeaderBytes
	TrustedProxies []netip.Prefix           // peers whose X-Forwarded-For counts; none by default
	TLS            bool                     // requests come over TLS: answers have Strict-Transport-Security
	LiveTokens     string                   // what tokens begin with; an id of a request with such a one in it is not taken
	QuietAccess    bool                     // log what SREs must see only, not each request
	Unlogged       float64                  // part of the successes, 0 to 1, that are not logged

	Capacity  *Capacity        // nil for none that is bounded
	Decisions DecisionObserver // nil for nobody
	Tracer    Tracer           // nil for none
	Clock     func() time.Time // nil for time.Now
	Random    func() float64   // from 0, below 1: which successes are logged; nil for the runtime's
	Logger    *slog.Logger     // nil for none
	Lines     LineLimits       // of the Logger's lines
	Metrics   *Metrics         // nil for none
}

// A Gateway serves the public API. It never changes once it is made, so a new configuration is a new Gateway. It runs nothing
// beside the requests, so one that is not used any more needs no end.
type Gateway struct {
	engine  *gin.Engine
	dry     *gin.Engine // the same rows, explained and not served
	rows    []Route
	metrics *Metrics
	logger  *slog.Logger
	clock   func() time.Time
	pool    sync.Pool // of *Request, for their buffers
	zippers sync.Pool // of *gzip.Writer

	authenticator  Authenticator
	limiter        Limiter
	policies       *ratelimit.Policies
	refunds        *Refunds
	retrySlots     *RetrySlots
	terms          []terms // by the index of their assignment
	capacity       *Capacity
	overloaded     *Problem // of every request that there is no room for
	decisions      DecisionObserver
	tracer         Tracer
	timeout        time.Duration
	timeouts       map[string]time.Duration
	bodyTimeout    time.Duration
	maxBodyBytes   int64
	maxHeaderBytes int64
	trustedProxies []netip.Prefix
	tls            bool
	liveTokens     string
	quietAccess    bool
	unlogged       float64
	random         func() float64
	lineLimits     LineLimits
}

// api holds what handlers call.
type api struct {
	fleet      fleetv1.FleetServiceClient
	monitoring monitoringv1.MonitoringServiceClient
	incident   incidentv1.IncidentServiceClient
	audit      auditv1.AuditServiceClient
}

// New returns a Gateway, or an error when something required is missing or the route table has a gap.
func New(o Options) (*Gateway, error) {
	if o.Fleet == nil || o.Monitoring == nil || o.Incident == nil || o.Audit == nil {
		return nil, errors.New("gateway: a client is required for each of fleet, monitoring, incident and audit")
	}
	if o.Authenticator == nil || o.Limiter == nil || o.Policies == nil || o.Refunds == nil {
		return nil, errors.New("gateway: an authenticator, a limiter, policies and refunds are required")
	}
	o = o.withDefaults()
	a := &api{fleet: o.Fleet, monitoring: o.Monitoring, incident: o.Incident, audit: o.Audit}
	g := &Gateway{
		rows:           a.routes(),
		metrics:        o.Metrics,
		logger:         o.Logger,
		clock:          o.Clock,
		authenticator:  o.Authenticator,
		limiter:        o.Limiter,
		policies:       o.Policies,
		refunds:        o.Refunds,
		retrySlots:     o.RetrySlots,
		terms:          newTerms(o.Policies, o.Metrics),
		capacity:       o.Capacity,
		overloaded:     unavailable(0, errNoRoom).because(causeOverload),
		decisions:      o.Decisions,
		tracer:         o.Tracer,
		timeout:        cmp.Or(o.Timeout, DefaultTimeout),
		timeouts:       o.Timeouts,
		bodyTimeout:    cmp.Or(o.BodyTimeout, DefaultBodyTimeout),
		maxBodyBytes:   cmp.Or(o.MaxBodyBytes, DefaultMaxBodyBytes),
		maxHeaderBytes: cmp.Or(o.MaxHeaderBytes, DefaultMaxHeaderBytes),
		trustedProxies: o.TrustedProxies,
		tls:            o.TLS,
		liveTokens:     o.LiveTokens,
		quietAccess:    o.QuietAccess,
		unlogged:       o.Unlogged,
		random:         o.Random,
		lineLimits:     o.Lines,
	}
	if err := checkRoutes(g.rows); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.pool.New = func() any { return &Request{gateway: g} }
	g.zippers.New = func() any { return gzip.NewWriter(nil) }
	g.engine = g.newEngine(g.rows, g.serve)
	g.dry = g.newEngine(uncalled().routes(), g.explained)
	return g, nil
}

// withDefaults fills in what may be left open.
func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = newMetrics()
	}
	if o.Capacity == nil {
		o.Capacity = unbounded()
	}
	if o.RetrySlots == nil {
		o.RetrySlots = NewRetrySlots(nil)
	}
	return o
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, req *http.Request) { g.engine.ServeHTTP(w, req) }

// Routes returns the rows of the API, in the order of the table.
func (g *Gateway) Routes() []Route { return append([]Route(nil), g.rows...) }
