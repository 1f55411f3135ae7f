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

	"opsgate/authn"
	"opsgate/gateway/apidocs"
	"opsgate/gateway/responses"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
	"opsgate/ratelimit"
)

// Defaults of Options.
const (
	defaultTimeout        = 10 * time.Second
	defaultBodyTimeout    = 5 * time.Second
	defaultMaxBodyBytes   = 128 << 10
	defaultMaxHeaderBytes = 16 << 10
)

// An Authenticator resolves a token to its principal. Its errors wrap authn.ErrInvalidToken,
// authn.ErrUnavailable or authn.ErrContract, or are the error of the context.
type Authenticator interface {
	Authenticate(ctx context.Context, token string, from authn.Source) (*authn.Principal, error)
}

// A Limiter decides whether a token may make a request now, and refunds decisions. An error becomes
// a 503, with the RetryAfter of a *ratelimit.UnavailableError. It is safe for concurrent use.
type Limiter interface {
	Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error)
	Refund(ctx context.Context, tokenID string, d ratelimit.Decision) error
}

// A DecisionObserver is called once for each decision, before the response. Decided must not block
// and must not keep the decision.
type DecisionObserver interface {
	Decided(p *authn.Principal, d *ratelimit.Decision)
}

// Options are the options of a Gateway. The service clients, Authenticator, Limiter, Policies and
// Refunds are required.
type Options struct {
	Fleet      fleetv1.FleetServiceClient
	Monitoring monitoringv1.MonitoringServiceClient
	Incident   incidentv1.IncidentServiceClient
	Audit      auditv1.AuditServiceClient

	Authenticator Authenticator
	Limiter       Limiter
	Policies      *ratelimit.Policies
	Refunds       *Refunds     // shared with other Gateways of the process
	RetrySpread   *RetrySpread // shared as well; nil for the same Retry-After for clients that are denied together

	Timeout        time.Duration            // of a whole request whose route has no timeout; 0 for defaultTimeout
	Timeouts       map[string]time.Duration // by route id; they override the timeouts of the routes
	BodyTimeout    time.Duration            // for the body to arrive; 0 for defaultBodyTimeout
	MaxBodyBytes   int64                    // 0 for defaultMaxBodyBytes
	MaxHeaderBytes int64                    // of the request line and the header; 0 for defaultMaxHeaderBytes
	TrustedProxies []netip.Prefix           // peers whose X-Forwarded-For is used; none by default
	TLS            bool                     // responses have Strict-Transport-Security

	// PublicURL is the base URL in documentation pages (openapi.CheckBaseURL). If it is "", each
	// page has the base of the URL at which it is read.
	PublicURL       string
	SecurityContact string // URI in security.txt (RFC 9116); "" for no security.txt
	// LiveTokenPrefix is the prefix of live tokens. No response, log line or trace repeats a text
	// of a client that contains it.
	LiveTokenPrefix string
	LogFailuresOnly bool    // log only 5xx, and requests that a shadow limit would deny
	LogSkipFraction float64 // fraction of the successes, 0 to 1, that are not logged

	LoadLimit *LoadLimit       // nil for no limit
	Decisions DecisionObserver // nil for none
	Tracer    Tracer           // nil for none
	Clock     func() time.Time // nil for time.Now
	Random    func() float64   // in [0, 1), for LogSkipFraction; nil for rand.Float64
	Logger    *slog.Logger     // its handler must not retain records; nil for none
	Lines     LineLimits       // for lines of the Logger
	Metrics   *Metrics         // nil for metrics that are not registered
}

// A Gateway serves the public API. It is immutable: a new configuration needs a new Gateway. It
// runs no goroutines and needs no Close.
type Gateway struct {
	options       Options
	engine        *gin.Engine
	rows          []Route
	documentation *apidocs.Pages
	limitSets     []limitSet // by the index of their assignment
	overloaded    *Problem   // the response at the in-flight limit
	requests      sync.Pool  // of *Request, for their buffers
}

// api holds the clients of the internal services. Its methods are the handlers.
type api struct {
	fleet      fleetv1.FleetServiceClient
	monitoring monitoringv1.MonitoringServiceClient
	incident   incidentv1.IncidentServiceClient
	audit      auditv1.AuditServiceClient
}

// New returns a Gateway, or an error if a required option is missing or the route table is not
// valid.
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
		options:       o,
		rows:          a.routes(),
		documentation: apidocs.New(o.PublicURL),
		limitSets:     newLimitSets(o.Policies, o.Metrics),
		overloaded:    unavailable(0, errAtCapacity).withCause(causeOverload),
	}
	if err := checkRoutes(g.rows); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	sender := responses.NewSender(o.LoadLimit.unwritten, o.Clock)
	g.requests.New = func() any { return &Request{gateway: g, response: sender.NewResponse()} }
	g.engine = g.newEngine(g.handlerFor)
	return g, nil
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, defaultBodyTimeout)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, defaultMaxBodyBytes)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, defaultMaxHeaderBytes)
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
	if o.LoadLimit == nil {
		o.LoadLimit = unlimitedLoadLimit()
	}
	return o
}

// Routes returns the route table, which the caller must not modify.
func (g *Gateway) Routes() []Route { return g.rows }

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, req *http.Request) { g.engine.ServeHTTP(w, req) }
