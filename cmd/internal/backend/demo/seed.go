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
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
)

// Seed inserts the demo data in one transaction if the store has no team. Otherwise it changes nothing. Times are relative to now.
func Seed(ctx context.Context, s *store.Store, format authn.TokenFormat, now time.Time) error {
	return seedStore(ctx, s, format, now, func(context.Context, *query.Queries, time.Time) error { return nil })
}

// seedStore inserts the demo data and, in the same transaction, what the function insert adds.
func seedStore(
	ctx context.Context, s *store.Store, format authn.TokenFormat, now time.Time,
	insert func(context.Context, *query.Queries, time.Time) error,
) error {
	tokens, err := Tokens(format)
	if err != nil {
		return err
	}
	return s.Write(ctx, func(q *query.Queries) error {
		teams, err := q.ListTeams(ctx)
		if err != nil {
			return fmt.Errorf("look for existing data: %w", err)
		}
		if len(teams) > 0 {
			return nil
		}
		for _, inventory := range inventories() {
			if err := insertTeam(ctx, q, inventory, now); err != nil {
				return fmt.Errorf("insert the demo team %s: %w", inventory.team, err)
			}
		}
		if err := insertTokens(ctx, q, tokens, now); err != nil {
			return err
		}
		return insert(ctx, q, now)
	})
}

func insertTeam(ctx context.Context, q *query.Queries, inventory inventory, now time.Time) error {
	t := &teamSeeder{inventory: inventory, q: q, now: now, recorder: service.NewRecorder(q, func() time.Time { return now })}
	t.recorder.Unaudited = true
	steps := []func(context.Context) error{
		t.insertTeamRow, t.insertGroups, t.insertServers, t.insertMonitors, t.insertPages, t.insertIncidents, t.insertAudit,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A teamSeeder inserts the data of one team.
type teamSeeder struct {
	inventory

	q        *query.Queries
	now      time.Time
	recorder *service.Recorder // of the history
}

func (t *teamSeeder) insertTeamRow(ctx context.Context) error {
	return t.q.InsertTeam(ctx, query.InsertTeamParams{
		ID: teamID(t.team), Name: t.team, Plan: t.plan, CreatedAt: t.ago(400 * day),
	})
}

// ago returns a stored time before now.
func (t *teamSeeder) ago(d time.Duration) int64 { return t.now.Add(-d).UnixNano() }

// id returns the id of a resource of the team, which depends only on its kind and name.
func (t *teamSeeder) id(kind, name string) string { return id(t.team, kind, name) }

// random returns a generator for one topic of the team. The numbers of a topic do not depend on other topics.
func (t *teamSeeder) random(topic ...string) *rand.Rand { return topicRandom(t.team, topic...) }

func topicRandom(team string, topic ...string) *rand.Rand {
	return rand.New(rand.NewChaCha8(seed(append([]string{team}, topic...)...)))
}

const day = 24 * time.Hour

func teamID(team string) string { return id(team, "team", team) }

func tokenID(name string) string { return id(harbour, "token", name) }

func id(path ...string) string {
	return uuid.NewSHA1(uuid.NameSpaceDNS, []byte("demo.opsgate.example/"+strings.Join(path, "/"))).String()
}

// seed returns the seed of a topic.
func seed(topic ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte("opsgate demo data\n" + strings.Join(topic, "\n")))
}

// Pick returns a random choice.
func Pick[T any](r *rand.Rand, choices []T) T { return choices[r.IntN(len(choices))] }

// Between returns a random duration d, where low ≤ d < high.
func Between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}
