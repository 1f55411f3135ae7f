package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	identityv1 "opsgate/proto/ops/identity/v1"
)

const (
	resolveToken     = "identity/ResolveToken"
	watchRevocations = "identity/WatchRevocations"
)

func identityRules() []rule {
	token, stream := named(resolveToken), named(watchRevocations)
	return []rule{
		{name: "known", on: token, check: tokensAreResolved,
			sentence: "ResolveToken returns the id and the team of a live token. Each token has an id of its own."},
		{name: "well-formed", on: token, sentence: "Ids are UUIDs in lower case, and the plan is a known one.",
			check: func(p *probe) {
				p.forEachToken(func(_ Team, response *identityv1.ResolveTokenResponse) { must(wellFormed(response)) })
			}},
		{name: "unknown", on: token, sentence: "NOT_FOUND with the reason TOKEN_UNKNOWN if there is no such token.",
			check: func(p *probe) {
				hash := make([]byte, sha256.Size)
				_, _ = rand.Read(hash) // it never fails
				p.expectNoToken(hash, "TOKEN_UNKNOWN", "an unknown token")
			}},
		{name: "revoked", on: token, sentence: "NOT_FOUND with the reason TOKEN_REVOKED if the token has been revoked.",
			check: func(p *probe) {
				for range 2 { // a revocation is final
					p.expectNoToken(p.revokedToken(), "TOKEN_REVOKED", "the revoked token")
				}
			}},
		{name: "scopes", on: token, check: scopesAreThoseOfTheFixtures,
			sentence: "ResolveToken returns the scopes of the token."},
		{name: "plan", on: token, check: planIsThatOfTheFixtures, sentence: "ResolveToken returns the plan of the team."},
		{name: "limit-class", on: token, check: limitClassIsStable,
			sentence: "The class of limits is at most 64 visible ASCII characters, and the same in each response."},
		{name: "expiry", on: token, check: expiryIsAhead,
			sentence: "A token whose `expires_at` has passed is NOT_FOUND, and its time is the same in each response."},
		{name: "revoked-id", on: token, check: idOfRevokedTokenIsValid,
			sentence: "The metadata `token_id` of a revoked token, if there is any, is a UUID in lower case."},
		{name: "first-message", on: stream, check: streamStartsWithHeartbeat,
			sentence: "The first message is a heartbeat with the position that the stream starts from."},
		{name: "heartbeats", on: stream, check: streamHasHeartbeats,
			sentence: "After at most ten seconds without a message there is a heartbeat."},
		{name: "resume", on: stream, check: streamResumes,
			sentence: "With `after_position`, the stream starts from that position."},
		{name: "revocation", on: stream, writes: true, check: revocationIsSent,
			sentence: "The stream has each revocation, and after it ResolveToken returns TOKEN_REVOKED."},
		{name: "unknown-position", on: stream, sentence: "OUT_OF_RANGE if `after_position` is unknown.",
			check: func(p *probe) {
				_, _, err := p.watch("an unknown position")
				must(expectCode(codes.OutOfRange, err, "an unknown position"))
			}},
	}
}

// resolve resolves the token with the hash.
func (p *probe) resolve(hash []byte) (*identityv1.ResolveTokenResponse, error) {
	response, err := p.attempt(fields{"token_sha256": hash})
	return as[*identityv1.ResolveTokenResponse](response), err
}

// forEachToken resolves the tokens of the fixtures, and calls check with each response.
func (p *probe) forEachToken(check func(Team, *identityv1.ResolveTokenResponse)) {
	needs(p.own.Token != nil || p.other.Token != nil, "a token in the fixtures")
	for _, team := range []Team{p.own, p.other} {
		if team.Token != nil {
			response, err := p.resolve(team.Token)
			require(err == nil, "a token of team "+team.ID, "%s", resultText(err))
			check(team, response)
		}
	}
}

func tokensAreResolved(p *probe) {
	tokens := map[string][]byte{} // by id
	expect := func(hash []byte, team string, response *identityv1.ResolveTokenResponse) {
		id := response.GetTokenId()
		require(response.GetTeamId() == team && id != "", fmt.Sprintf("a token id, and the team %q", team),
			"the token id %q, and the team %q", id, response.GetTeamId())
		require(tokens[id] == nil ||
			bytes.Equal(tokens[id], hash), "another id for another token", "the id %s of two tokens", id)
		tokens[id] = hash
	}
	p.forEachToken(func(team Team, response *identityv1.ResolveTokenResponse) { expect(team.Token, team.ID, response) })
	for _, token := range p.Fixtures.Tokens {
		needs(token.Team != "", "the team of each token under tokens in the fixtures")
		response, err := p.resolve(token.Hash)
		must(err)
		expect(token.Hash, token.Team, response)
	}
}

func scopesAreThoseOfTheFixtures(p *probe) {
	p.compareTokens("scopes", func(t Token) string { return setText(t.Scopes) },
		func(r *identityv1.ResolveTokenResponse) string { return setText(r.GetScopes()) })
}

// resolvedRepeatedly is the number of lookups of a token whose responses must agree: a service may
// have several replicas.
const resolvedRepeatedly = 5

// repeatedly resolves each token of the fixtures several times, and calls check with the first
// response and each later one.
func (p *probe) repeatedly(check func(first, later *identityv1.ResolveTokenResponse)) {
	p.forEachToken(func(team Team, first *identityv1.ResolveTokenResponse) {
		for range resolvedRepeatedly {
			later, err := p.resolve(team.Token)
			must(err)
			check(first, later)
		}
	})
}

func limitClassIsStable(p *probe) {
	p.repeatedly(func(first, later *identityv1.ResolveTokenResponse) {
		class := first.GetLimitClass()
		require(len(class) <= 64 && !strings.ContainsFunc(class, func(c rune) bool { return c <= ' ' || c > '~' }),
			"a limit_class of at most 64 visible ASCII characters", "%q", class)
		require(later.GetLimitClass() == class, fmt.Sprintf("the limit_class %q again", class), "%q", later.GetLimitClass())
	})
}

func expiryIsAhead(p *probe) {
	p.repeatedly(func(first, later *identityv1.ResolveTokenResponse) {
		at := first.GetExpiresAt()
		require(at == nil || at.AsTime().After(p.Clock().Add(-skew)), "NOT_FOUND for a token that has expired",
			"a response whose expires_at is %s", timeText(at))
		require(proto.Equal(at, later.GetExpiresAt()), "the expires_at "+timeText(at)+" again", "%s",
			timeText(later.GetExpiresAt()))
	})
}

// setText returns a text that is equal for the same scopes in another order.
func setText(scopes []string) string {
	return fmt.Sprint(slices.Compact(slices.Sorted(slices.Values(scopes))))
}

func planIsThatOfTheFixtures(p *probe) {
	p.compareTokens("plans", func(t Token) string { return t.Plan.String() },
		func(r *identityv1.ResolveTokenResponse) string { return r.GetPlan().String() })
}

// compareTokens compares a property of the tokens with that in the fixtures. Two different values
// are evidence.
func (p *probe) compareTokens(what string, of func(Token) string, in func(*identityv1.ResolveTokenResponse) string) {
	values := map[string]bool{}
	for _, token := range p.Fixtures.Tokens {
		response, err := p.resolve(token.Hash)
		must(err)
		got, want := in(response), of(token)
		require(got == want, what+" "+want+" of the token "+response.GetTokenId(), "%s", got)
		values[want] = true
	}
	needs(len(values) >= 2, "two tokens with different %s under tokens in the fixtures", what)
}

// revokedToken returns the hash of the revoked token of the fixtures.
func (p *probe) revokedToken() []byte {
	needs(p.Fixtures.RevokedToken != nil, "revoked_token in the fixtures")
	return p.Fixtures.RevokedToken
}

func idOfRevokedTokenIsValid(p *probe) {
	_, err := p.resolve(p.revokedToken())
	if status.Code(err) != codes.NotFound {
		must(err)
	}
	id, named := infoOf(err).GetMetadata()["token_id"]
	if !named {
		must(skip("the service does not return the id of a revoked token, which is optional"))
	}
	require(isID(id), "a token_id that is a UUID in lower case", "%q", id)
}

func (p *probe) expectNoToken(hash []byte, reason, what string) {
	_, err := p.resolve(hash)
	must(expectCode(codes.NotFound, err, what))
	got := infoOf(err).GetReason()
	require(got == reason, fmt.Sprintf("the reason %q for %s", reason, what), "%q", got)
}

// A revocationStream is an open stream. It ends with the check.
type revocationStream struct {
	grpc.ServerStreamingClient[identityv1.WatchRevocationsResponse]
	cancel  context.CancelFunc
	timeout time.Duration
}

// watch opens a stream and returns its first message.
func (p *probe) watch(after string) (revocationStream, *identityv1.WatchRevocationsResponse, error) {
	ctx, cancel := context.WithCancel(p.ctx)
	timer := time.AfterFunc(p.HeartbeatTimeout, cancel)
	stream, err := identityv1.NewIdentityServiceClient(p.conns["identity"]).
		WatchRevocations(ctx, &identityv1.WatchRevocationsRequest{AfterPosition: after})
	timer.Stop()
	must(err)
	r := revocationStream{stream, cancel, p.HeartbeatTimeout}
	first, err := r.next()
	return r, first, err
}

// next returns the next message, which must arrive within the timeout.
func (r revocationStream) next() (*identityv1.WatchRevocationsResponse, error) {
	timer := time.AfterFunc(r.timeout, r.cancel)
	m, err := r.Recv()
	inTime := timer.Stop()
	require(inTime, fmt.Sprintf("a message within %v", r.timeout), "no message")
	return m, err
}

// messageText returns the kind and the position of a message of the stream.
func messageText(m *identityv1.WatchRevocationsResponse) string {
	if m.GetRevocation() != nil {
		return fmt.Sprintf("a revocation with the position %q", m.GetPosition())
	}
	return fmt.Sprintf("a heartbeat with the position %q", m.GetPosition())
}

func streamStartsWithHeartbeat(p *probe) {
	_, first, err := p.watch("")
	must(err)
	require(first.GetPosition() != "" && first.GetRevocation() == nil, "a heartbeat with a position", "%s",
		messageText(first))
}

func streamHasHeartbeats(p *probe) {
	stream, _, err := p.watch("")
	must(err)
	second, err := stream.next()
	must(err)
	require(second.GetPosition() != "", "a message with a position", "%s", messageText(second))
}

func streamResumes(p *probe) {
	_, first, err := p.watch("")
	must(err)
	_, resumed, err := p.watch(first.GetPosition())
	require(err == nil, fmt.Sprintf("a stream from the position %q", first.GetPosition()), "%s", resultText(err))
	want := messageText(&identityv1.WatchRevocationsResponse{Position: first.GetPosition()})
	require(messageText(resumed) == want, want, "%s", messageText(resumed))
}

// revocationIsSent revokes a token, and expects the revocation on an open stream, and on one that
// resumes from before.
func revocationIsSent(p *probe) {
	r, tokens := p.Fixtures.Revocable, p.of(resolveToken)
	needs(r.Revoke != nil, "revoke in the fixtures: a live token, and the command that revokes it")
	_, err := tokens.resolve(r.Token)
	needs(infoOf(err).GetReason() != "TOKEN_REVOKED", "a token under revoke in the fixtures that is not revoked yet")
	must(err)
	stream, first, err := p.watch("")
	must(err)
	ctx, cancel := context.WithTimeout(p.ctx, p.Timeout)
	defer cancel()
	err = r.Revoke(ctx)
	needs(err == nil, "a command under revoke in the fixtures that succeeds: %v", err)
	stream.expectRevocation(p.Clock, r.Token)
	tokens.expectNoToken(r.Token, "TOKEN_REVOKED", "a token whose revocation was sent")
	resumed, _, err := p.watch(first.GetPosition())
	must(err)
	resumed.expectRevocation(p.Clock, r.Token)
}

// expectRevocation reads the stream until the revocation of the token, which must arrive within the
// timeout.
func (r revocationStream) expectRevocation(clock func() time.Time, token []byte) {
	until := clock().Add(r.timeout)
	for {
		m, err := r.next()
		must(err)
		if bytes.Equal(m.GetRevocation().GetTokenSha256(), token) {
			return
		}
		require(clock().Before(until), fmt.Sprintf("the revocation within %v", r.timeout), "%s", messageText(m))
	}
}
