package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/store/query"
)

// A Token is a demo token.
type Token struct {
	Name string
	// ID is the id that logs and operators use.
	ID string
	// Text is the token that a client sends.
	Text string
}

// Tokens returns the demo tokens: full, read, none, other_team, no_plan and revoked, and then one
// for each scope, with the scope's name. The tokens are the same at each call.
func Tokens(format authn.TokenFormat) ([]Token, error) {
	grants := grants()
	tokens := make([]Token, len(grants))
	for i, grant := range grants {
		// The seed is public: these tokens protect only generated data.
		text, err := format.New(rand.NewChaCha8(seed("token", grant.name)))
		if err != nil {
			return nil, fmt.Errorf("create the demo token %s: %w", grant.name, err)
		}
		tokens[i] = Token{Name: grant.name, ID: tokenID(grant.name), Text: text}
	}
	return tokens, nil
}

// A grant describes a demo token.
type grant struct {
	name, team string
	scopes     []authn.Scope
	revoked    bool
}

func grants() []grant {
	var read []authn.Scope
	for _, scope := range authn.AllScopes() {
		if scope != authn.IncidentsWrite {
			read = append(read, scope)
		}
	}
	list := []grant{
		{name: "full", team: harbour, scopes: authn.AllScopes()},
		{name: "read", team: harbour, scopes: read},
		{name: "none", team: harbour},
		{name: "other_team", team: lighthouse, scopes: authn.AllScopes()},
		{name: "no_plan", team: breakwater, scopes: authn.AllScopes()},
		{name: "revoked", team: harbour, scopes: authn.AllScopes(), revoked: true},
	}
	for _, scope := range authn.AllScopes() {
		list = append(list, grant{name: string(scope), team: harbour, scopes: []authn.Scope{scope}})
	}
	return list
}

// insertTokens inserts the hashes of the tokens.
func insertTokens(ctx context.Context, q *query.Queries, tokens []Token, now time.Time) error {
	for i, grant := range grants() {
		scopes, err := json.Marshal(append([]authn.Scope{}, grant.scopes...))
		if err != nil {
			return fmt.Errorf("encode the scopes of %s: %w", grant.name, err)
		}
		hash := authn.Hash(tokens[i].Text)
		row := query.InsertTokenParams{
			ID: tokenID(grant.name), TeamID: teamID(grant.team), Name: "Demo: " + grant.name,
			Sha256: hash[:], Scopes: string(scopes), CreatedAt: now.AddDate(0, 0, -20).UnixNano(),
		}
		if grant.revoked {
			at := now.AddDate(0, 0, -3).UnixNano()
			row.RevokedAt = &at
		}
		if err := q.InsertToken(ctx, row); err != nil {
			return fmt.Errorf("insert token %s: %w", grant.name, err)
		}
		if row.RevokedAt == nil {
			continue
		}
		err = q.InsertRevocationAnyTeam(ctx, query.InsertRevocationAnyTeamParams{
			TokenID: row.ID, TokenSha256: row.Sha256, RevokedAt: *row.RevokedAt,
		})
		if err != nil {
			return fmt.Errorf("insert the revocation of %s: %w", grant.name, err)
		}
	}
	return nil
}
