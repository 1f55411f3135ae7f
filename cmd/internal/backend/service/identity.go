package service

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"opsgate/cmd/internal/backend/store/query"
	identityv1 "opsgate/proto/ops/identity/v1"
)

type identityService struct {
	identityv1.UnimplementedIdentityServiceServer
	*Backend
	stopping <-chan struct{}
}

func (s *identityService) ResolveToken(
	ctx context.Context, r *identityv1.ResolveTokenRequest,
) (*identityv1.ResolveTokenResponse, error) {
	if len(r.GetTokenSha256()) != sha256.Size {
		return nil, invalidField("token_sha256", "must be 32 bytes")
	}
	response := &identityv1.ResolveTokenResponse{}
	return response, s.store.ReadTokens(ctx, func(q *query.Queries) error {
		row, err := q.ResolveTokenAnyTeam(ctx, r.GetTokenSha256())
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return withReason(codes.NotFound, "no such token", "TOKEN_UNKNOWN", nil)
		case err != nil:
			return fmt.Errorf("look up the token: %w", err)
		case row.RevokedAt != nil:
			return withReason(codes.NotFound, "no such token", "TOKEN_REVOKED", map[string]string{"token_id": row.ID})
		case row.ExpiresAt != nil && *row.ExpiresAt <= s.options.Clock().UnixNano():
			return withReason(codes.NotFound, "no such token", "TOKEN_UNKNOWN", nil)
		}
		if err := json.Unmarshal([]byte(row.Scopes), &response.Scopes); err != nil {
			return fmt.Errorf("decode the scopes of token %s: %w", row.ID, err)
		}
		response.TokenId, response.TeamId, response.Plan = row.ID, row.TeamID, planMessage(row.Plan)
		response.TokenName, response.TeamName, response.LimitClass = row.Name, row.TeamName, row.LimitClass
		response.ExpiresAt = optionalTimestamp(row.ExpiresAt)
		return nil
	})
}

func planMessage(plan string) identityv1.Plan {
	if plan == PlanAI {
		return identityv1.Plan_PLAN_AI
	}
	return identityv1.Plan_PLAN_BASIC
}
