package gateway

import (
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/timings"
)

// An outcome is how a request ended.
type outcome struct {
	status  int
	code    string
	counted Cause // the cause as metrics have it
}

// An ending is what all requests of one operation and outcome have in common, made once: a counter, which by its labels would
// be hashed for each request, and a log whose lines begin with the operation and the outcome.
type ending struct {
	counter prometheus.Counter
	log     slog.Handler
}

// An observer is what is observed of one operation.
type observer struct {
	id       string
	template string // of its path, for people; "" for paths that are none
	metrics  *Metrics
	log      slog.Handler
	duration prometheus.Observer
	endings  atomic.Pointer[map[outcome]ending]
}

func (m *Metrics) observer(id, template string, log slog.Handler) *observer {
	o := &observer{id: id, template: template, metrics: m, log: log, duration: m.duration.WithLabelValues(id)}
	o.endings.Store(&map[outcome]ending{})
	return o
}

// ending returns what requests of the outcome have in common. The map is copied when it grows, so that reading it takes no
// lock; when two requests grow it at once, one of them makes its entry anew the next time.
func (o *observer) ending(how outcome) ending {
	known := *o.endings.Load()
	if e, ok := known[how]; ok {
		return e
	}
	attrs := []slog.Attr{slog.String("route", o.id), slog.Int("status", how.status), slog.String("code", how.code)}
	if o.template != "" {
		attrs = append(attrs, slog.String("path", o.template))
	}
	e := ending{
		counter: o.metrics.requests.WithLabelValues(o.id, strconv.Itoa(how.status), how.code, string(how.counted)),
		log:     o.log.WithAttrs(attrs),
	}
	grown := maps.Clone(known)
	grown[how] = e
	o.endings.Store(&grown)
	return e
}

// sent is what was sent to the client.
type sent struct {
	outcome
	bytes int
	cause Cause // with a limit's name; "" for a success
	err   error // nil for a success and for refusals that need no explanation
}

// observe counts the request and writes its line to the log.
func (g *Gateway) observe(r *Request, s sent) {
	elapsed := g.clock().Sub(r.start)
	ending := r.route.observer.ending(s.outcome)
	ending.counter.Inc()
	r.observeDuration(max(0, elapsed-r.root.bodyTime))
	g.metrics.observeTimings(&r.root.timings)
	r.endTrace(s)

	level := slog.LevelInfo
	if s.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if !g.logs(r, s) || !ending.log.Enabled(r.ctx, level) || !g.allowsLine(r, s) {
		return
	}
	// A record made here, not by the logger, has no source position: finding it would cost more than the rest of the line.
	line := slog.NewRecord(r.start.Add(elapsed), level, "request", 0)
	var room [12]slog.Attr // on the stack
	line.AddAttrs(r.appendLine(room[:0], s, elapsed)...)
	_ = ending.log.Handle(r.ctx, line) // a log that cannot be written has nobody to tell
}

// logs says whether a request has a line in the log.
func (g *Gateway) logs(r *Request, s sent) bool {
	switch {
	case !r.admitted: // a line for each would make an overload worse, and they are all the same
		return false
	case s.status >= http.StatusInternalServerError, r.shadowDenied() != "":
		return true
	case g.quietAccess:
		return false
	}
	return s.cause != "" || g.unlogged == 0 || g.random() >= g.unlogged
}

// appendLine appends what the log says of this request alone. It has nothing that could hold a token: neither headers nor query nor
// body.
func (r *Request) appendLine(attrs []slog.Attr, s sent, elapsed time.Duration) []slog.Attr {
	if s.cause != "" {
		attrs = append(attrs, slog.String("cause", string(s.cause)))
	}
	attrs = append(attrs,
		slog.String("request_id", r.id),
		slog.String("method", r.method()),
		slog.Int64("latency_us", elapsed.Microseconds()),
	)
	attrs = append(r.appendWaits(attrs), slog.Int("bytes", s.bytes))
	teamID, tokenID := r.caller()
	if teamID != "" {
		attrs = append(attrs, slog.String("team_id", teamID))
	}
	if tokenID != "" {
		attrs = append(attrs, slog.String("token_id", tokenID))
	}
	if limit := r.shadowDenied(); limit != "" {
		attrs = append(attrs, slog.String(shadowDenied, limit))
	}
	if r.trace != nil {
		traceID, spanID := r.trace.IDs()
		attrs = append(attrs, slog.String(traceIDKey, traceID), slog.String(spanIDKey, spanID))
	}
	if s.cause != "" {
		attrs = append(attrs, slog.String("client", r.ClientAddr().String()))
	}
	if s.err != nil {
		attrs = append(attrs, slog.String("error", s.err.Error()))
	}
	return attrs
}

// appendWaits appends how long the request waited for others, where it did.
func (r *Request) appendWaits(attrs []slog.Attr) []slog.Attr {
	keys := [timings.NumParts]string{timings.Identity: "identity_us", timings.Limiter: "limiter_us", timings.Service: "service_us"}
	for part, key := range keys {
		if took := r.root.timings.Waited(timings.Part(part)); took > 0 {
			attrs = append(attrs, slog.Int64(key, took.Microseconds()))
		}
	}
	if r.root.timings.Retries > 0 {
		attrs = append(attrs, slog.Int("retries", r.root.timings.Retries))
	}
	return attrs
}

// observeDuration records how long the request took without the arrival of its body, and where there is a trace of it, which.
func (r *Request) observeDuration(elapsed time.Duration) {
	observer := r.route.observer.duration
	if r.trace != nil {
		if exemplars, ok := observer.(prometheus.ExemplarObserver); ok {
			traceID, spanID := r.trace.IDs()
			exemplars.ObserveWithExemplar(elapsed.Seconds(), prometheus.Labels{traceIDKey: traceID, spanIDKey: spanID})
			return
		}
	}
	observer.Observe(elapsed.Seconds())
}

// Keys that lead from a line or an exemplar to the trace of its request.
const (
	traceIDKey = "trace_id"
	spanIDKey  = "span_id"
)

// shadowDenied is the key of the limit that would have refused the request if it were not in shadow.
const shadowDenied = "shadow_denied"

// shadowDenied names the limit in shadow that would have refused the request, or is "".
func (r *Request) shadowDenied() string {
	if r.terms == nil || !r.decision.Allowed || r.decision.Shadowed < 0 {
		return ""
	}
	return r.terms.limits[r.decision.Shadowed].Name
}

// observeDecision counts a decision and tells whoever observes decisions.
func (g *Gateway) observeDecision(r *Request) {
	r.terms.count(&r.decision)
	if r.decision.Local {
		g.metrics.local.Inc()
	}
	if r.decision.Cached {
		g.metrics.cached.Inc()
	}
	if g.decisions != nil {
		g.decisions.Decided(r.principal, r.terms.assignment, &r.decision)
	}
}

// method returns the request's method for the log: one of those that HTTP knows, since the log is no place for a client's own
// words.
func (r *Request) method() string {
	switch m := r.http().Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
		http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}
