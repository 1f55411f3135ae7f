package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/gin-gonic/gin"

	"opsgate/authn"
	"opsgate/gateway/decode"
	"opsgate/gateway/responses"
	"opsgate/internal/netaddr"
	"opsgate/internal/uuid"
	"opsgate/ratelimit"
)

// A Request is a request of a client. It is reused after the response, so nothing may keep it.
type Request struct {
	gateway       *Gateway
	route         *boundRoute
	gin           *gin.Context
	ctx           context.Context
	trace         Trace           // nil if the request is not traced
	base          *requestContext // ctx, or its parent while a stage has a span
	id            string
	start         time.Time
	holdsSlot     bool       // the request holds an in-flight slot
	shed          bool       // refused, because no in-flight slot was free
	busy          Connection // the connection while this request marks it as busy, else nil
	principal     *authn.Principal
	pathID        string              // the id in the path, in lower case; set by handle
	refused       *authn.RefusedError // set if the token is revoked or has expired
	limitSet      *limitSet           // of the decision; nil before there is one
	decision      ratelimit.Decision
	pendingRefund *refund      // to be queued after the response; nil for none
	body          *decode.Body // nil until a route reads one
	bodyStart     []byte       // buffer for the first bytes of the body; nil until a route reads one
	arriving      arrivingBody // the rest of the body
	response      *responses.Response
	line          [15]slog.Attr // buffer for the log line
}

// maxHeaderValues is the maximum number of headers in a response whose values differ by request.
const maxHeaderValues = 8

// Context returns the context for calls of services. It ends when the client disconnects. It has
// the deadline of the request, but does not end at the deadline: each call enforces it.
func (r *Request) Context() context.Context { return r.ctx }

// Team returns the id of the token's team.
func (r *Request) Team() string { return r.principal.TeamID }

// TokenID implements [responses.Recipient].
func (r *Request) TokenID() string {
	if r.principal == nil {
		return ""
	}
	return r.principal.TokenID
}

// Connection implements [responses.Recipient].
func (r *Request) Connection() responses.Connection { return ConnectionOf(r.http().Context()) }

// caller returns the ids of the token and its team for logs and traces, even if the token is
// revoked or has expired. Ids that are not known are "".
func (r *Request) caller() (teamID, tokenID string) {
	switch {
	case r.principal != nil:
		return r.principal.TeamID, r.principal.TokenID
	case r.refused != nil:
		return r.refused.TeamID, r.refused.TokenID
	}
	return "", ""
}

// handle calls the handler of the route. If the id in the path is not a UUID, it returns a 404
// (docs/integrate/contract.md, "Requests"), except for OPTIONS: its response depends only on the
// template of the path.
func (r *Request) handle() (Reply, error) {
	if sent, hasID := r.gin.Params.Get("id"); hasID && r.route.Method != http.MethodOptions {
		var ok bool
		if r.pathID, ok = uuid.Canonical(sent); !ok {
			return Reply{}, notFound(errBadID).withCause(causePath)
		}
	}
	return r.route.Handle(r)
}

func (r *Request) clientGone() bool {
	return r.gin.Request.Context().Err() != nil
}

func (r *Request) http() *http.Request { return r.gin.Request }

// ClientAddr implements [authn.Source] and [responses.Recipient].
func (r *Request) ClientAddr() netip.Addr {
	return netaddr.ClientOf(r.http().RemoteAddr, r.http().Header["X-Forwarded-For"], r.gateway.options.TrustedProxies)
}
