package gateway

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
	"opsgate/ratelimit"
)

// A Request is one request on its way through the gateway. It lives as long as the request and must not outlive it.
type Request struct {
	gateway    *Gateway
	route      *route
	gin        *gin.Context
	ctx        context.Context
	trace      Trace           // nil where the request is not recorded
	root       *requestContext // outermost of ctx
	id         string
	start      time.Time
	admitted   bool       // there was room for it
	inside     bool       // it has a place in the gateway's capacity
	connection Connection // acquired once the request is authenticated; nil before, and where connections are not counted
	principal  *authn.Principal
	revoked    *authn.RevokedError // of its token, which was revoked; else nil
	terms      *terms              // of the limits that decided; nil before
	decision   ratelimit.Decision
	refunded   *refund      // to be sent after the response; nil for none
	out        jsonw.Writer // the response's body
	zipped     bytes.Buffer // the same in gzip, where the client asks for it

	// values are those of the response's header that are made for this request, in one allocation. net/http reads them
	// after the request is released, so they are never used again.
	values *[maxOwnHeaders]string
	header int // how many of values are taken
}

// maxOwnHeaders is the number of header fields that one response may need values of its own for.
const maxOwnHeaders = 8

// Context ends at the operation's deadline, or when the client hangs up.
func (r *Request) Context() context.Context { return r.ctx }

// Team returns the id of the team that the token acts for.
func (r *Request) Team() string { return r.principal.TeamID }

// caller returns the ids of the token and its team for logs and traces, also of a token that was revoked; "" for one that is not known.
func (r *Request) caller() (teamID, tokenID string) {
	switch {
	case r.principal != nil:
		return r.principal.TeamID, r.principal.TokenID
	case r.revoked != nil:
		return r.revoked.TeamID, r.revoked.TokenID
	}
	return "", ""
}

// PathID returns the id in the path, in lower case, or the problem that there is no such resource: what is not a UUID names
// none (decisions, "Requests").
func (r *Request) PathID() (string, error) {
	id, ok := authn.CanonicalUUID(r.gin.Param("id"))
	if !ok {
		return "", notFound(errBadID).because(causePath)
	}
	return id, nil
}

// clientGone says whether the client hung up, as opposed to a deadline of ours that passed.
func (r *Request) clientGone() bool {
	return r.gin.Request.Context().Err() != nil
}

func (r *Request) http() *http.Request { return r.gin.Request }
