package demo

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"opsgate/authn"
	"opsgate/cmd/internal/refbackend/store"
	"opsgate/cmd/internal/refbackend/store/query"
)

// Seed lays the demo data into a store that has no team yet, in one transaction; into any other it lays nothing. Times
// are relative to now.
func Seed(ctx context.Context, s *store.Store, format authn.TokenFormat, now time.Time) error {
	tokens, err := Tokens(format)
	if err != nil {
		return err
	}
	return s.Write(ctx, func(q *query.Queries) error {
		teams, err := q.ListTeams(ctx)
		if err != nil {
			return fmt.Errorf("look whether there is data already: %w", err)
		}
		if len(teams) > 0 {
			return nil
		}
		for _, inventory := range inventories() {
			if err := layTeam(ctx, q, inventory, now); err != nil {
				return fmt.Errorf("lay the demo team %s: %w", inventory.team, err)
			}
		}
		return layTokens(ctx, q, tokens, now)
	})
}

func layTeam(ctx context.Context, q *query.Queries, inventory inventory, now time.Time) error {
	t := &teamLayer{q: q, now: now, inventory: inventory}
	steps := []func(context.Context) error{
		t.layItself, t.layGroups, t.layServers, t.layMonitors, t.layPages, t.layIncidents, t.layAudit,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A teamLayer lays the data of one team.
type teamLayer struct {
	inventory

	q   *query.Queries
	now time.Time
}

func (t *teamLayer) layItself(ctx context.Context) error {
	return t.q.InsertTeam(ctx, query.InsertTeamParams{
		ID: teamID(t.team), Name: t.team, Plan: t.plan, CreatedAt: t.ago(400 * day),
	})
}

// ago is a time of the store.
func (t *teamLayer) ago(d time.Duration) int64 { return t.now.Add(-d).UnixNano() }

// id is the id of a thing of the team, from what it is called.
func (t *teamLayer) id(kind, name string) string { return id(t.team, kind, name) }

// random is a source of numbers for one topic of the team: what is drawn for one topic does not change what is drawn for
// another.
func (t *teamLayer) random(topic ...string) *rand.Rand {
	return rand.New(rand.NewChaCha8(seed(append([]string{t.team}, topic...)...)))
}

const day = 24 * time.Hour

func teamID(team string) string { return id(team, "team", team) }

func tokenID(name string) string { return id(harbour, "token", name) }

func id(path ...string) string {
	return uuid.NewSHA1(uuid.NameSpaceDNS, []byte("demo.opsgate.example/"+strings.Join(path, "/"))).String()
}

// seed is the generator's seed for a topic.
func seed(topic ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte("opsgate demo data\n" + strings.Join(topic, "\n")))
}

// pick returns one of the choices.
func pick[T any](r *rand.Rand, choices []T) T { return choices[r.IntN(len(choices))] }

// between returns a duration from one to below another.
func between(r *rand.Rand, from, below time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(below-from)))
}
