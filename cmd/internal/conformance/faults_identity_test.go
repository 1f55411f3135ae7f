package conformance_test

import (
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	identityv1 "opsgate/proto/ops/identity/v1"
)

type (
	watchRequest  = identityv1.WatchRevocationsRequest
	watchResponse = identityv1.WatchRevocationsResponse
)

// identityFaults returns faults of the identity service.
func identityFaults() []fault {
	return append(streamFaults(), []fault{
		{name: "tokens belong to another team", fails: []string{"identity/ResolveToken/known"},
			unary: changeResponse(func(c *intercepted, m *identityv1.ResolveTokenResponse) { m.TeamId = c.state.other(m.TeamId).ID })},
		{name: "token ids are not UUIDs", fails: []string{"identity/ResolveToken/well-formed"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) { m.TokenId = "token-" + m.TokenId })},
		{name: "team ids of tokens are in upper case", fails: []string{"identity/ResolveToken/well-formed", "identity/ResolveToken/known"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) {
				m.TeamId = strings.ToUpper("a" + m.TeamId[1:])
			})},
		{name: "token_id of revoked tokens is not a UUID", fails: []string{"identity/ResolveToken/revoked-id"},
			unary: ofTokens(func(c *intercepted, err error) (proto.Message, error) {
				if ofRevokedToken(c) {
					return nil, revokedAs("not a UUID")
				}
				return nil, err
			})},
		{name: "revoked tokens are resolved", fails: []string{"identity/ResolveToken/revoked"},
			unary: accept(codes.NotFound, func(c *intercepted, _ error) bool { return ofRevokedToken(c) })},
		{name: "unresolved tokens have no reason",
			fails: []string{"identity/ResolveToken/unknown", "identity/ResolveToken/revoked", "identity/WatchRevocations/revocation"},
			unary: ofTokens(func(*intercepted, error) (proto.Message, error) {
				return nil, status.Error(codes.NotFound, "no such token")
			})},
	}...)
}

func ofRevokedToken(c *intercepted) bool {
	r, ok := c.request.(*identityv1.ResolveTokenRequest)
	return ok && string(r.TokenSha256) == string(c.state.fixtures.RevokedToken)
}

// revokedAs returns the error for a revoked token with the id.
func revokedAs(id string) error {
	return noToken(&errdetails.ErrorInfo{Reason: "TOKEN_REVOKED", Metadata: map[string]string{"token_id": id}})
}

func unknownToken() error { return noToken(&errdetails.ErrorInfo{Reason: "TOKEN_UNKNOWN"}) }

func noToken(info *errdetails.ErrorInfo) error {
	detailed, err := status.New(codes.NotFound, "no such token").WithDetails(info)
	if err != nil {
		panic(err)
	}
	return detailed.Err()
}

// ofTokens handles NOT_FOUND of ResolveToken.
func ofTokens(handle func(c *intercepted, err error) (proto.Message, error)) handler {
	return onCode(codes.NotFound, func(c *intercepted, err error) (proto.Message, error) {
		if c.method.String() == "identity/ResolveToken" {
			return handle(c, err)
		}
		return nil, err
	})
}

func streamFaults() []fault {
	return []fault{
		{name: "streams start without a position",
			fails: []string{"identity/WatchRevocations/first-message", "identity/WatchRevocations/revocation"},
			stream: func(_ *watchRequest, n int, m *watchResponse) bool {
				if n == 0 {
					m.Position = ""
				}
				return true
			}},
		{name: "streams have no heartbeats", fails: []string{"identity/WatchRevocations/heartbeats", "identity/WatchRevocations/revocation"},
			stream: func(_ *watchRequest, n int, _ *watchResponse) bool { return n == 0 }},
		{name: "streams have no messages", stream: func(*watchRequest, int, *watchResponse) bool { return false },
			fails: []string{
				"identity/WatchRevocations/first-message", "identity/WatchRevocations/heartbeats", "identity/WatchRevocations/resume",
				"identity/WatchRevocations/revocation",
			}},
		{name: "streams start from another position", fails: []string{"identity/WatchRevocations/resume"},
			stream: func(r *watchRequest, _ int, m *watchResponse) bool {
				if r.AfterPosition != "" {
					m.Position += "0"
				}
				return true
			}},
		{name: "unknown positions are accepted",
			fails:          []string{"identity/WatchRevocations/unknown-position", "identity/WatchRevocations/revocation"},
			ignorePosition: true},
	}
}
