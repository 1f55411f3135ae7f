package rehearsal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Path is where the score is served as JSON while the rehearsal runs, and where a client reports how many items of a list it has read. It
// needs no token.
const Path = "/rehearsal"

const maxCounts = 100 // that clients report

// Options are the options of [New]. Logger is required.
type Options struct {
	Seed uint64
	// Tokens has the names of tokens by their texts, for findings.
	Tokens map[string]string
	Logger *slog.Logger
	Clock  func() time.Time // nil for time.Now
}

// A Rehearsal disturbs the requests of one API and records them. It is safe for concurrent use.
type Rehearsal struct {
	options Options

	mu      sync.Mutex
	callers map[string]*caller // by token name; only of tokens that the gateway has accepted
	journal journal
	counts  []Count // the last ones that the client has reported
}

// A caller is a token that the gateway has accepted.
type caller struct {
	schedule *schedule
	limits   http.Header // the RateLimit headers of its last answer
}

// New returns a rehearsal.
func New(o Options) *Rehearsal {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Rehearsal{options: o, callers: make(map[string]*caller)}
}

// Seed returns the seed.
func (h *Rehearsal) Seed() uint64 { return h.options.Seed }

// Score evaluates the requests until now.
func (h *Rehearsal) Score() Score {
	h.mu.Lock()
	entries, requests, disturbed := h.journal.inOrder(), h.journal.requests, h.journal.disturbed
	counts := slices.Clone(h.counts)
	h.mu.Unlock()
	s := Evaluate(entries, counts)
	s.Seed, s.Requests, s.Disturbed = h.options.Seed, requests, disturbed
	return s
}

// Wrap returns a handler that disturbs the requests under /v1/ to next. Other paths are left alone. Without a rehearsal, which is nil, it
// returns next.
func (h *Rehearsal) Wrap(next http.Handler) http.Handler {
	if h == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == Path && r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_ = json.NewEncoder(w).Encode(h.Score()) // fails only if the client has disconnected
		case r.URL.Path == Path && r.Method == http.MethodPost:
			h.count(w, r)
		case strings.HasPrefix(r.URL.Path, "/v1/"):
			h.begin(w, r).serve(next)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// count records how many items of a list the client has read.
func (h *Rehearsal) count(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	c := Count{Path: clip(r.FormValue("list"))}
	var err error
	if c.Items, err = strconv.Atoi(r.FormValue("items")); err != nil || !strings.HasPrefix(c.Path, "/v1/") {
		http.Error(w, "list must be a path under /v1/, and items a number", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts = append(h.counts[max(0, len(h.counts)-maxCounts+1):], c)
	w.WriteHeader(http.StatusNoContent)
}

// begin reads what the rehearsal needs of the request and plans its disturbance. The first request of a token has none, because only the
// gateway decides whether the token is valid.
func (h *Rehearsal) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{h: h, w: w, r: r, plan: &plan{}}
	x.entry = newEntry(r, h.tokenName(r), h.options.Clock())
	x.entry.Body = readBody(w, r)
	x.request = request{
		id:     strings.Join([]string{r.Method, r.URL.RequestURI(), x.entry.Key}, " "),
		method: r.Method, path: r.URL.Path,
		cursor: r.URL.Query().Get("cursor") != "",
		key:    x.entry.Key != "",
	}
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return x
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.caller = h.callers[x.entry.Token]; x.caller != nil {
		x.plan = x.caller.schedule.plan(x.request)
		if len(x.plan.failures) > 0 {
			x.failure, x.plan.failures = x.plan.failures[0], x.plan.failures[1:]
			x.caller.schedule.keep(x.request, x.plan)
		}
	}
	return x
}

// tokenName returns the name of the token of a request; for a text that is not a demo token, the start of its hash.
func (h *Rehearsal) tokenName(r *http.Request) string {
	sent := r.Header.Get("Authorization")
	if sent == "" {
		return "none sent"
	}
	scheme, text, _ := strings.Cut(sent, " ")
	if name, ok := h.options.Tokens[strings.TrimSpace(text)]; ok && strings.EqualFold(scheme, "Bearer") {
		return name
	}
	hash := sha256.Sum256([]byte(sent))
	return "unknown " + hex.EncodeToString(hash[:4])
}

// answered updates the state of the token and records the request. The client has not got the answer yet.
func (h *Rehearsal) answered(x *exchange, limits http.Header) {
	e := x.entry
	e.Answered = h.options.Clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case x.caller != nil && e.failed():
		x.caller.schedule.keep(x.request, x.plan)
	case x.caller != nil:
		x.caller.schedule.end(x.request)
	case limits != nil && h.callers[e.Token] == nil: // only answers to a valid token have limits
		x.caller = &caller{schedule: newSchedule(h.options.Seed, e.Token)}
		h.callers[e.Token] = x.caller
	}
	if x.caller != nil && limits != nil {
		x.caller.limits = limits
	}
	h.journal.add(e)
	if e.Fault != "" {
		h.options.Logger.LogAttrs(context.Background(), slog.LevelInfo, "disturbed", slog.String("fault", string(e.Fault)),
			slog.String("method", e.Method), slog.String("path", e.Path), slog.String("request_id", e.RequestID))
	}
}

// limits returns copies of the RateLimit headers of the token's last answer.
func (h *Rehearsal) limits(c *caller) http.Header {
	h.mu.Lock()
	defer h.mu.Unlock()
	return c.limits.Clone()
}

// exhausted returns how long a RateLimit header announces that a limit has no request remaining; 0 if all have.
func exhausted(limits string) (longest time.Duration) {
	for limit := range strings.SplitSeq(limits, ",") {
		if _, text, ok := strings.Cut(limit, ";r=0;t="); ok {
			seconds, _ := strconv.Atoi(strings.TrimSpace(text))
			longest = max(longest, time.Duration(seconds)*time.Second)
		}
	}
	return longest
}

// retryAfter returns the time that an answer tells the client to wait; 0 if it states none.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
