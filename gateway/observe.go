package gateway

import (
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/gateway/responses"
	"opsgate/internal/timings"
)

// An outcome has the metric labels of a response.
type outcome struct {
	status     int
	code       string
	causeLabel Cause
}

// An outcomeSeries has the counter of a route and outcome, and a log handler that adds the route
// and the outcome to lines. A stored counter saves hashing the labels for each request.
type outcomeSeries struct {
	counter prometheus.Counter
	log     slog.Handler
}

// routeMetrics has the metrics and the log handlers of one route.
type routeMetrics struct {
	id       string
	template string // of the path; "" for unmatched requests
	metrics  *Metrics
	log      slog.Handler
	duration prometheus.Observer
	outcomes atomic.Pointer[map[outcome]outcomeSeries]
}

func (m *Metrics) routeMetrics(id, template string, log slog.Handler) *routeMetrics {
	rm := &routeMetrics{id: id, template: template, metrics: m, log: log, duration: m.duration.WithLabelValues(id)}
	rm.outcomes.Store(&map[outcome]outcomeSeries{})
	return rm
}

// series returns the series of an outcome. To add an entry, it copies the map, so that reads need
// no lock. If two requests add an entry at the same time, one entry is lost, and added again later.
func (rm *routeMetrics) series(o outcome) outcomeSeries {
	current := *rm.outcomes.Load()
	if s, ok := current[o]; ok {
		return s
	}
	attrs := []slog.Attr{slog.String("route", rm.id), slog.Int("status", o.status), slog.String("code", o.code)}
	if rm.template != "" {
		attrs = append(attrs, slog.String("path", rm.template))
	}
	s := outcomeSeries{
		counter: rm.metrics.requests.WithLabelValues(rm.id, strconv.Itoa(o.status), o.code, string(o.causeLabel)),
		log:     rm.log.WithAttrs(attrs),
	}
	extended := maps.Clone(current)
	extended[o] = s
	rm.outcomes.Store(&extended)
	return s
}

// preparedResponse is a response without its headers, which the response writer has.
type preparedResponse struct {
	outcome

	body   []byte
	shared bool  // the body is in memory that responses share
	cause  Cause // in full, unlike causeLabel; "" for a success
	err    error // nil for a success, and if the cause is a sufficient description
}

func (g *Gateway) observe(r *Request, resp preparedResponse) {
	elapsed := g.options.Clock().Sub(r.start)
	series := r.route.metrics.series(resp.outcome)
	series.counter.Inc()
	r.observeDuration(max(0, elapsed-r.base.bodyTime))
	g.options.Metrics.observeTimings(&r.base.timings)
	r.endTrace(resp)

	level := slog.LevelInfo
	if resp.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if !g.shouldLog(r, resp) || !series.log.Enabled(r.ctx, level) || !g.allowsLine(r, resp) {
		return
	}
	// The line has no source position. To determine it, as a Logger does, would cost more than the
	// rest of the line.
	line := slog.NewRecord(r.start.Add(elapsed), level, "request", 0)
	// A Record allocates memory for many attributes, but not for one group. The handler writes the
	// attributes of a group without a name as if they were in no group.
	line.AddAttrs(slog.Attr{Value: slog.GroupValue(r.appendLine(r.line[:0], resp, elapsed)...)})
	_ = series.log.Handle(r.ctx, line) // there is no place to report the error
}

// markIncomplete marks the lines of a log that omits requests, so that replay and usage can detect
// the omission.
func (o Options) markIncomplete(log slog.Handler) slog.Handler {
	switch {
	case o.LogFailuresOnly:
		return log.WithAttrs([]slog.Attr{slog.Bool("failures_only", true)})
	case o.LogSkipFraction > 0:
		return log.WithAttrs([]slog.Attr{slog.Bool("sampled", true)})
	}
	return log
}

func (g *Gateway) shouldLog(r *Request, resp preparedResponse) bool {
	switch {
	case r.shed: // during an overload, equal lines for all shed requests would make it worse
		return false
	case resp.status >= http.StatusInternalServerError, r.shadowDeniedBy() != "":
		return true
	case g.options.LogFailuresOnly:
		return false
	}
	return resp.cause != "" || g.options.LogSkipFraction == 0 || g.options.Random() >= g.options.LogSkipFraction
}

// appendLine appends the attributes of the request. No attribute can contain a token: the query and
// the body are omitted. So are the headers, except an address and the request id, in which
// requestID does not accept LiveTokenPrefix.
func (r *Request) appendLine(attrs []slog.Attr, resp preparedResponse, elapsed time.Duration) []slog.Attr {
	if resp.cause != "" {
		attrs = append(attrs, slog.String("cause", string(resp.cause)))
	}
	attrs = append(attrs,
		slog.String("request_id", r.id),
		slog.String("method", r.method()),
		slog.Int64("latency_us", elapsed.Microseconds()),
	)
	attrs = append(r.appendWaits(attrs), slog.Int("bytes", len(resp.body)))
	teamID, tokenID := r.caller()
	if teamID != "" {
		attrs = append(attrs, slog.String("team_id", teamID))
	}
	if tokenID != "" {
		attrs = append(attrs, slog.String("token_id", tokenID))
	}
	attrs = r.appendDecision(attrs)
	if r.trace != nil {
		traceID, spanID := r.trace.IDs()
		attrs = append(attrs, slog.String(traceIDKey, traceID), slog.String(spanIDKey, spanID))
	}
	if resp.cause != "" {
		attrs = append(attrs, slog.String("client", r.ClientAddr().String()))
	}
	if resp.err != nil {
		attrs = append(attrs, slog.String("error", resp.err.Error()))
	}
	return attrs
}

// appendDecision appends the decision by the token's limits, for `opsgate replay` and `usage`.
func (r *Request) appendDecision(attrs []slog.Attr) []slog.Attr {
	if r.limitSet == nil {
		return attrs
	}
	attrs = append(attrs, slog.String("class", r.limitSet.assignment.Class))
	if class := r.principal.LimitClass; class != "" {
		attrs = append(attrs, slog.String("limit_class", class))
	}
	if limit := r.shadowDeniedBy(); limit != "" {
		attrs = append(attrs, slog.String(shadowDeniedKey, limit))
	}
	if r.decision.Local {
		attrs = append(attrs, slog.Bool("local", true))
	}
	if r.pendingRefund != nil {
		attrs = append(attrs, slog.Bool("refunded", true))
	}
	return attrs
}

func (r *Request) deniedBy() *limitEntry {
	if r.limitSet == nil || r.decision.Allowed {
		return nil
	}
	return &r.limitSet.limits[r.decision.DeniedBy]
}

// appendWaits appends how long the request waited for other services, if it did, and the number of
// retries, if there were any.
func (r *Request) appendWaits(attrs []slog.Attr) []slog.Attr {
	keys := [timings.NumParts]string{timings.Identity: "identity_us", timings.Limiter: "limiter_us",
		timings.Service: "service_us"}
	for part, key := range keys {
		if took := r.base.timings.Waited(timings.Part(part)); took > 0 {
			attrs = append(attrs, slog.Int64(key, took.Microseconds()))
		}
	}
	if r.base.timings.Retries > 0 {
		attrs = append(attrs, slog.Int("retries", r.base.timings.Retries))
	}
	return attrs
}

// observeDuration records the duration of a request, which excludes the time in which the body
// arrived. The exemplar is the trace, if there is one.
func (r *Request) observeDuration(elapsed time.Duration) {
	var labels prometheus.Labels
	if r.trace != nil {
		traceID, spanID := r.trace.IDs()
		labels = prometheus.Labels{traceIDKey: traceID, spanIDKey: spanID}
	}
	timings.Observe(r.route.metrics.duration, elapsed, labels)
}

// Keys of the trace in log lines and exemplars.
const (
	traceIDKey = "trace_id"
	spanIDKey  = "span_id"
)

// shadowDeniedKey is the key of the shadow limit that would have denied the request.
const shadowDeniedKey = "shadow_denied"

// shadowDeniedBy returns the name of the shadow limit that would have denied the request, or "".
func (r *Request) shadowDeniedBy() string {
	if r.limitSet == nil || !r.decision.Allowed || r.decision.ShadowDeniedBy < 0 {
		return ""
	}
	return r.limitSet.limits[r.decision.ShadowDeniedBy].Name
}

func (g *Gateway) observeDecision(r *Request) {
	r.limitSet.count(&r.decision)
	if r.decision.Local {
		g.options.Metrics.localDecisions.Inc()
	}
	if r.decision.Cached {
		g.options.Metrics.cachedDenials.Inc()
	}
	if g.options.Decisions != nil {
		g.options.Decisions.Decided(r.principal, &r.decision)
	}
}

// warnEvery is the minimum time between two warnings about unknown classes.
const warnEvery = time.Minute

// reportUnknownClass counts a request whose token has the default limits because the configuration
// lacks the token's class. It logs at most one such request in warnEvery, because a token may send
// any number of them.
func (g *Gateway) reportUnknownClass(r *Request) {
	m, now := g.options.Metrics, r.start.UnixNano()
	m.unknownClasses.Inc()
	last := m.warnedAt.Load()
	if (last == 0 || now-last >= int64(warnEvery)) && m.warnedAt.CompareAndSwap(last, now) {
		g.options.Logger.LogAttrs(r.ctx, slog.LevelWarn,
			"identity names a class of limits that the configuration does not have; the default limits apply",
			slog.String("limit_class", r.principal.LimitClass), slog.String("team_id", r.principal.TeamID),
			slog.String("token_id", r.principal.TokenID))
	}
}

// method returns the request's method for the log, or "other" if HTTP does not define the method: a
// client can send any text.
func (r *Request) method() string {
	switch m := r.http().Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions,
		http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}

func (g *Gateway) logCutOff(r *Request, cut responses.Cut) {
	if !allows(g.options.Lines.CutOff, cut.Cause) {
		return
	}
	attrs := []slog.Attr{
		slog.String("cause", cut.Cause), slog.String("route", r.route.ID), slog.String("request_id", r.id),
		slog.Int64("bytes", cut.Bytes), slog.Int64("lasted_ms", cut.After.Milliseconds()),
		slog.String("client", cut.Client.String()),
	}
	if r.principal != nil {
		attrs = append(attrs, slog.String("team_id", r.principal.TeamID), slog.String("token_id", r.principal.TokenID))
	}
	g.options.Logger.LogAttrs(r.ctx, slog.LevelWarn, "response cut off", attrs...)
}
