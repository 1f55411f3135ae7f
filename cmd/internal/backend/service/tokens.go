package service

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/store/query"
)

// Plans of a team.
const (
	PlanBasic = "basic"
	PlanAI    = "ai" // with the public API
)

// A Team owns all other data.
type Team struct {
	ID, Name, Plan string
	CreatedAt      time.Time
}

// A Token describes an API token. Its text is not stored.
type Token struct {
	ID, TeamID, Name string
	Scopes           []string
	CreatedAt        time.Time
	RevokedAt        time.Time // zero while the token is live
	LimitClass       string    // "" for that of the team
	ExpiresAt        time.Time // zero for never
}

// NewToken is the input of CreateToken.
type NewToken struct {
	TeamID, Name string
	// SHA256 is the hash of the token's full text.
	SHA256 [sha256.Size]byte
	Scopes []string
	// LimitClass is a class of limits in the configuration of gateways; "" for that of the team.
	LimitClass string
	Lifetime   time.Duration // 0 for ever
}

// CreateTeam creates a team. Names are unique.
func (b *Backend) CreateTeam(ctx context.Context, name, plan string) (Team, error) {
	if name = strings.TrimSpace(name); name == "" {
		return Team{}, errors.New("a team needs a name")
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return Team{}, errors.New("the name of a team must have no control characters")
	}
	if err := checkPlan(plan); err != nil {
		return Team{}, err
	}
	id := newID()
	row := query.Team{ID: id, Name: name, Plan: plan, CreatedAt: b.options.Clock().UnixNano()}
	err := b.store.Write(ctx, func(q *query.Queries) error {
		switch _, err := q.GetTeamByName(ctx, name); {
		case err == nil:
			return fmt.Errorf("a team %q already exists", name)
		case !errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("look for a team of that name: %w", err)
		}
		if err := q.InsertTeam(ctx, query.InsertTeamParams(row)); err != nil {
			return fmt.Errorf("write the team: %w", err)
		}
		return audit.Service().Action(id, "team.created", id, row.CreatedAt).Record(ctx, q)
	})
	return team(row), err
}

func checkPlan(plan string) error {
	if plan != PlanBasic && plan != PlanAI {
		return fmt.Errorf("unknown plan %q: must be %s or %s", plan, PlanBasic, PlanAI)
	}
	return nil
}

// SetTeamPlan changes the plan of the team with an id. It changes nothing if the team has the plan.
func (b *Backend) SetTeamPlan(ctx context.Context, id, plan string) error {
	if err := checkPlan(plan); err != nil {
		return err
	}
	return b.store.Write(ctx, func(q *query.Queries) error {
		row, err := q.GetTeam(ctx, id)
		if err := orNotFound(err, "team", id); err != nil || row.Plan == plan {
			return err
		}
		if err := q.SetTeamPlan(ctx, query.SetTeamPlanParams{Plan: plan, ID: id}); err != nil {
			return fmt.Errorf("write the plan: %w", err)
		}
		return audit.Service().Record(ctx, q, b.options.Clock, id, "team.updated", id)
	})
}

// Teams returns all teams, by name.
func (b *Backend) Teams(ctx context.Context) (teams []Team, err error) {
	err = b.store.Read(ctx, func(q *query.Queries) error {
		return list(&teams, "teams", team)(q.ListTeams(ctx))
	})
	return teams, err
}

// FindTeam returns the team with the id or, if there is none, with the name. It returns ErrNotFound
// if there is neither.
func (b *Backend) FindTeam(ctx context.Context, idOrName string) (found Team, err error) {
	err = b.store.Read(ctx, func(q *query.Queries) error {
		row, err := q.GetTeam(ctx, idOrName)
		if errors.Is(err, sql.ErrNoRows) {
			row, err = q.GetTeamByName(ctx, idOrName)
		}
		found = team(row)
		return orNotFound(err, "team", idOrName)
	})
	return found, err
}

// CreateToken stores the hash of a token that the caller has created.
func (b *Backend) CreateToken(ctx context.Context, t NewToken) (Token, error) {
	scopes := slices.Compact(slices.Sorted(slices.Values(t.Scopes)))
	list, err := json.Marshal(append([]string{}, scopes...))
	if err != nil {
		return Token{}, fmt.Errorf("encode the scopes: %w", err)
	}
	if len(t.LimitClass) > 64 || strings.ContainsFunc(t.LimitClass, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return Token{}, errors.New("a class must have at most 64 visible ASCII characters")
	}
	id := newID()
	row := query.ApiToken{
		ID: id, TeamID: t.TeamID, Name: t.Name, Sha256: t.SHA256[:], Scopes: string(list), LimitClass: t.LimitClass,
	}
	if t.Lifetime != 0 {
		row.ExpiresAt = new(b.options.Clock().Add(t.Lifetime).UnixNano())
	}
	err = b.store.Write(ctx, func(q *query.Queries) error {
		now, err := audit.TimeOfWrite(ctx, q, b.options.Clock, t.TeamID)
		if err != nil {
			return err
		}
		row.CreatedAt = now
		if err := q.InsertToken(ctx, query.InsertTokenParams(row)); err != nil {
			return fmt.Errorf("write the token: %w", err)
		}
		return audit.Service().Action(t.TeamID, "api_token.created", id, now).Record(ctx, q)
	})
	if err != nil {
		return Token{}, err
	}
	return token(row)
}

// Tokens returns all tokens, including revoked ones, by team and then by age. With a within above 0
// it returns those that have expired or expire within it, and are not revoked, by their expiry.
func (b *Backend) Tokens(ctx context.Context, within time.Duration) (tokens []Token, err error) {
	err = b.store.Read(ctx, func(q *query.Queries) error {
		list := q.ListTokensAnyTeam
		if within > 0 {
			end := new(b.options.Clock().Add(within).UnixNano())
			list = func(ctx context.Context) ([]query.ApiToken, error) { return q.ListTokensThatExpireAnyTeam(ctx, end) }
		}
		rows, err := list(ctx)
		if err != nil {
			return fmt.Errorf("list the tokens: %w", err)
		}
		for _, row := range rows {
			t, err := token(row)
			if err != nil {
				return err
			}
			tokens = append(tokens, t)
		}
		return nil
	})
	return tokens, err
}

// RevokeToken revokes a token and reports it on the revocation streams. It does not change a token
// that is already revoked. It returns ErrNotFound if there is no such token.
func (b *Backend) RevokeToken(ctx context.Context, id string) (revoked Token, err error) {
	err = b.store.Write(ctx, func(q *query.Queries) error {
		row, err := q.GetTokenAnyTeam(ctx, id)
		if err := orNotFound(err, "token", id); err != nil {
			return err
		}
		if row.RevokedAt == nil {
			if err := b.revoke(ctx, q, &row); err != nil {
				return err
			}
		}
		revoked, err = token(row)
		return err
	})
	if err == nil {
		b.revoked.raise()
	}
	return revoked, err
}

func (b *Backend) revoke(ctx context.Context, q *query.Queries, row *query.ApiToken) error {
	now, err := audit.TimeOfWrite(ctx, q, b.options.Clock, row.TeamID)
	if err != nil {
		return err
	}
	row.RevokedAt = &now
	if err := q.SetTokenRevokedAnyTeam(ctx,
		query.SetTokenRevokedAnyTeamParams{ID: row.ID, RevokedAt: row.RevokedAt}); err != nil {
		return fmt.Errorf("revoke the token: %w", err)
	}
	err = q.InsertRevocationAnyTeam(ctx,
		query.InsertRevocationAnyTeamParams{TokenID: row.ID, TokenSha256: row.Sha256, RevokedAt: now})
	if err != nil {
		return fmt.Errorf("write the revocation: %w", err)
	}
	return audit.Service().Action(row.TeamID, "api_token.revoked", row.ID, now).Record(ctx, q)
}

func team(row query.Team) Team {
	return Team{ID: row.ID, Name: row.Name, Plan: row.Plan, CreatedAt: TimeOf(&row.CreatedAt)}
}

func token(row query.ApiToken) (Token, error) {
	t := Token{ID: row.ID, TeamID: row.TeamID, Name: row.Name, CreatedAt: TimeOf(&row.CreatedAt),
		RevokedAt: TimeOf(row.RevokedAt), LimitClass: row.LimitClass, ExpiresAt: TimeOf(row.ExpiresAt)}
	if err := json.Unmarshal([]byte(row.Scopes), &t.Scopes); err != nil {
		return Token{}, fmt.Errorf("decode the scopes of token %s: %w", row.ID, err)
	}
	return t, nil
}
