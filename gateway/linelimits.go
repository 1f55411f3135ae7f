package gateway

import (
	"cmp"
	"net/http"
)

// A LineLimit limits the number of log lines of one kind. Allow reports whether a line may be
// written now; otherwise the LineLimit counts and reports the dropped line by cause. Allow must not
// block, and is safe for concurrent use.
type LineLimit interface {
	Allow(cause string) bool
}

// LineLimits limit the log lines that clients can cause beyond their rate limits. Nil means no
// limit.
type LineLimits struct {
	Unauthenticated LineLimit // of unauthenticated requests: errors, and public documentation
	RateLimited     LineLimit // of a 429; the cause is class/limit, or the cause of a service's 429
	// Failed limits the lines of failed refunds, and of a 5xx except busy:identity, which
	// unauthenticated clients can cause.
	Failed LineLimit
	CutOff LineLimit // of responses that were cut off
}

func (g *Gateway) allowsLine(r *Request, resp preparedResponse) bool {
	limit, cause := LineLimit(nil), cmp.Or(string(resp.causeLabel), resp.code)
	switch {
	case resp.status >= http.StatusInternalServerError && resp.cause != causeIdentityBusy:
		limit = g.options.Lines.Failed
	case r.principal == nil:
		limit = g.options.Lines.Unauthenticated
	case resp.status == http.StatusTooManyRequests:
		limit = g.options.Lines.RateLimited
		if denied := r.deniedBy(); denied != nil {
			cause = denied.lineCause
		}
	}
	return allows(limit, cause)
}

func allows(l LineLimit, cause string) bool { return l == nil || l.Allow(cause) }
