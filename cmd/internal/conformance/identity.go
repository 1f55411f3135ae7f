package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	identityv1 "opsgate/proto/ops/identity/v1"
)

const (
	resolveToken     = "identity/ResolveToken"
	watchRevocations = "identity/WatchRevocations"
)

func identityChecks() []Check { return append(tokenChecks(), revocationChecks()...) }

func tokenChecks() []Check {
	return []Check{
		{
			Name: resolveToken + "/known", run: knownTokenIsResolved,
			Sentence: "ResolveToken returns the id and the team of a live token.",
		},
		{
			Name: resolveToken + "/well-formed", run: resolvedTokenIsWellFormed,
			Sentence: "Ids are UUIDs in lower case, and the plan is a known one.",
		},
		{
			Name: resolveToken + "/unknown", Sentence: "NOT_FOUND with the reason TOKEN_UNKNOWN if there is no such token.",
			run: func(ctx context.Context, s *subject) error {
				hash := make([]byte, sha256.Size)
				_, _ = rand.Read(hash) // it never fails
				return s.refusesToken(ctx, hash, "TOKEN_UNKNOWN", "an unknown token")
			},
		},
		{
			Name: resolveToken + "/revoked", Sentence: "NOT_FOUND with the reason TOKEN_REVOKED if the token has been revoked.",
			run: func(ctx context.Context, s *subject) error {
				if s.revoked == nil {
					return skip("the fixtures name no revoked token")
				}
				return s.refusesToken(ctx, s.revoked, "TOKEN_REVOKED", "the revoked token")
			},
		},
		{
			Name: resolveToken + "/revoked-id", run: revokedTokenHasValidID,
			Sentence: "The metadata `token_id` of a revoked token, if there is any, is a UUID in lower case.",
		},
		{
			Name: resolveToken + "/hash-length", Sentence: "INVALID_ARGUMENT naming `token_sha256` if it is not 32 bytes.",
			run: refuses(resolveToken, "token_sha256", func(*subject, Team) []invalidRequest {
				var list []invalidRequest
				for _, n := range []int{0, sha256.Size - 1, sha256.Size + 1} {
					list = append(list, invalidRequest{fmt.Sprint(n, " bytes"), &identityv1.ResolveTokenRequest{TokenSha256: make([]byte, n)}})
				}
				return list
			}),
		},
		{
			Name: resolveToken + "/deadline", Sentence: deadlineSentence,
			run: func(ctx context.Context, s *subject) error {
				return s.keepsDeadline(ctx, resolveToken, &identityv1.ResolveTokenRequest{TokenSha256: make([]byte, sha256.Size)})
			},
		},
	}
}

func revocationChecks() []Check {
	return []Check{
		{
			Name: watchRevocations + "/first-message", run: streamStartsWithHeartbeat,
			Sentence: "The first message is a heartbeat with the position that the stream starts from.",
		},
		{
			Name: watchRevocations + "/heartbeats", run: streamHasHeartbeats,
			Sentence: "After at most ten seconds without a message there is a heartbeat.",
		},
		{
			Name: watchRevocations + "/resume", run: streamResumes,
			Sentence: "With `after_position`, the stream starts from that position.",
		},
		{
			Name: watchRevocations + "/unknown-position", run: refusesUnknownPosition,
			Sentence: "OUT_OF_RANGE if `after_position` is unknown.",
		},
		{
			Name: watchRevocations + "/deadline", Sentence: "A stream whose deadline has passed ends at once.",
			run: func(ctx context.Context, s *subject) error {
				request := &identityv1.WatchRevocationsRequest{}
				return cmp.Or(s.keepsDeadline(ctx, watchRevocations, request), s.endsStreamAtDeadline(ctx, watchRevocations, request))
			},
		},
	}
}

func knownTokenIsResolved(ctx context.Context, s *subject) error {
	return s.resolveTokens(ctx, func(own Team, response *identityv1.ResolveTokenResponse, err error) error {
		if err != nil {
			return expected("a token of team "+own.ID, "%s", resultText(err))
		}
		if response.GetTeamId() != own.ID || response.GetTokenId() == "" {
			return expected(fmt.Sprintf("a token id, and the team %q", own.ID),
				"the token id %q, and the team %q", response.GetTokenId(), response.GetTeamId())
		}
		return nil
	})
}

func resolvedTokenIsWellFormed(ctx context.Context, s *subject) error {
	return s.resolveTokens(ctx, func(_ Team, response *identityv1.ResolveTokenResponse, err error) error {
		if err != nil {
			return err
		}
		return wellFormed(response)
	})
}

// resolveTokens resolves the tokens of the fixtures, and calls check with each response.
func (s *subject) resolveTokens(ctx context.Context, check func(Team, *identityv1.ResolveTokenResponse, error) error) error {
	seen := 0
	for _, own := range s.teams {
		if own.Token == nil {
			continue
		}
		seen++
		response, err := s.identity.ResolveToken(ctx, &identityv1.ResolveTokenRequest{TokenSha256: own.Token})
		if err := check(own, response, err); err != nil {
			return err
		}
	}
	if seen == 0 {
		return skip("the fixtures name no token")
	}
	return nil
}

func revokedTokenHasValidID(ctx context.Context, s *subject) error {
	if s.revoked == nil {
		return skip("the fixtures name no revoked token")
	}
	_, err := s.identity.ResolveToken(ctx, &identityv1.ResolveTokenRequest{TokenSha256: s.revoked})
	if err != nil && status.Code(err) != codes.NotFound {
		return err
	}
	id, named := infoOf(err).GetMetadata()["token_id"]
	switch {
	case !named:
		return skip("the service does not return the id of a revoked token, which is optional")
	case !isID(id):
		return expected("a token_id that is a UUID in lower case", "%q", id)
	}
	return nil
}

func (s *subject) refusesToken(ctx context.Context, hash []byte, reason, what string) error {
	_, err := s.identity.ResolveToken(ctx, &identityv1.ResolveTokenRequest{TokenSha256: hash})
	if err := expectCode(codes.NotFound, err, what); err != nil {
		return err
	}
	if got := infoOf(err).GetReason(); got != reason {
		return expected(fmt.Sprintf("the reason %q for %s", reason, what), "%q", got)
	}
	return nil
}

// watch opens a stream, which ends with ctx, and returns its first message.
func (s *subject) watch(ctx context.Context, after string) (revocations, *identityv1.WatchRevocationsResponse, error) {
	stream, err := s.identity.WatchRevocations(ctx, &identityv1.WatchRevocationsRequest{AfterPosition: after})
	if err != nil {
		return nil, nil, err
	}
	first, err := stream.Recv()
	return stream, first, err
}

// messageText returns the kind and the position of a message of the stream.
func messageText(m *identityv1.WatchRevocationsResponse) string {
	if m.Revocation != nil {
		return fmt.Sprintf("a revocation with the position %q", m.GetPosition())
	}
	return fmt.Sprintf("a heartbeat with the position %q", m.GetPosition())
}

type revocations = grpc.ServerStreamingClient[identityv1.WatchRevocationsResponse]

func streamStartsWithHeartbeat(ctx context.Context, s *subject) error {
	ctx, cancel := context.WithTimeout(ctx, s.heartbeatTimeout)
	defer cancel()
	_, first, err := s.watch(ctx, "")
	if err != nil {
		return err
	}
	if first.GetPosition() == "" || first.Revocation != nil {
		return expected("a heartbeat with a position", "%s", messageText(first))
	}
	return nil
}

func streamHasHeartbeats(ctx context.Context, s *subject) error {
	ctx, cancel := context.WithTimeout(ctx, 2*s.heartbeatTimeout)
	defer cancel()
	stream, _, err := s.watch(ctx, "")
	if err != nil {
		return err
	}
	timeout, stop := context.WithTimeout(ctx, s.heartbeatTimeout)
	defer stop()
	context.AfterFunc(timeout, cancel) // ends a stream without heartbeats
	second, err := stream.Recv()
	switch {
	case timeout.Err() != nil:
		return expected(fmt.Sprintf("a message within %v", s.heartbeatTimeout), "no message")
	case err != nil:
		return err
	case second.GetPosition() == "":
		return expected("a message with a position", "%s", messageText(second))
	}
	return nil
}

func streamResumes(ctx context.Context, s *subject) error {
	ctx, cancel := context.WithTimeout(ctx, 2*s.heartbeatTimeout)
	defer cancel()
	_, first, err := s.watch(ctx, "")
	if err != nil {
		return err
	}
	_, resumed, err := s.watch(ctx, first.GetPosition())
	if err != nil {
		return expected(fmt.Sprintf("a stream from the position %q", first.GetPosition()), "%s", resultText(err))
	}
	if resumed.Revocation != nil || resumed.GetPosition() != first.GetPosition() {
		return expected(messageText(&identityv1.WatchRevocationsResponse{Position: first.GetPosition()}), "%s", messageText(resumed))
	}
	return nil
}

func refusesUnknownPosition(ctx context.Context, s *subject) error {
	ctx, cancel := context.WithTimeout(ctx, s.heartbeatTimeout)
	defer cancel()
	_, _, err := s.watch(ctx, "an unknown position")
	return expectCode(codes.OutOfRange, err, "an unknown position")
}
