package gateway

import (
	"cmp"
	"net/http"
)

// A LineLimit bounds how many log lines of one kind are written. Allow returns whether a line may be written now; the LineLimit counts and
// reports those that may not, by cause. It must not block, and is safe for concurrent use.
type LineLimit interface {
	Allow(cause string) bool
}

// LineLimits bound the lines that clients or an outage can cause in any number; nil is no bound. Lines of other requests are bounded by
// the limits of their tokens.
type LineLimits struct {
	Unauthenticated LineLimit // of requests whose client is not known: refusals, and the public documentation
	RateLimited     LineLimit // of 429 to clients that are known
	Failed          LineLimit // of 5xx, and of requests that could not be given back after one
}

// allowsLine returns whether the access line of a request may be written.
func (g *Gateway) allowsLine(r *Request, info responseInfo) bool {
	var limit LineLimit
	switch {
	case info.status >= http.StatusInternalServerError && info.cause != causeIdentityBusy: // clients alone cause the latter
		limit = g.options.Lines.Failed
	case r.principal == nil:
		limit = g.options.Lines.Unauthenticated
	case info.status == http.StatusTooManyRequests:
		limit = g.options.Lines.RateLimited
	}
	return allows(limit, cmp.Or(string(info.causeLabel), info.code))
}

func allows(l LineLimit, cause string) bool { return l == nil || l.Allow(cause) }
