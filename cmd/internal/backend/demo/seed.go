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
	"opsgate/cmd/internal/backend/inventory"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// Seed inserts the demo data in one transaction if the store has no team. Otherwise it changes
// nothing. Times are relative to now.
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
		for _, h := range histories() {
			if err := insertTeam(ctx, q, h, now); err != nil {
				return fmt.Errorf("insert the demo team %s: %w", h.team, err)
			}
		}
		if err := insertTokens(ctx, q, tokens, now); err != nil {
			return err
		}
		return insert(ctx, q, now)
	})
}

func insertTeam(ctx context.Context, q *query.Queries, h history, now time.Time) (err error) {
	clock := func() time.Time { return now }
	t := &teamSeeder{history: h, q: q, now: now, recorder: service.NewRecorder(q, clock)}
	t.recorder.Unaudited = true
	if t.Team, err = loadTeam(h.team); err != nil {
		return err
	}
	t.complete()
	if _, err := inventory.Apply(ctx, q, inventory.File{Teams: []inventory.Team{t.Team}},
		inventory.Options{Clock: clock}); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{t.insertFleet, t.insertChecks, t.insertIncidents, t.insertAudit} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A teamSeeder inserts the data of one team.
type teamSeeder struct {
	history
	inventory.Team

	q        *query.Queries
	now      time.Time
	recorder *service.Recorder // of the history
	checks   []*ingestv1.MonitorCheck
}

// ago returns a stored time before now.
func (t *teamSeeder) ago(d time.Duration) int64 { return t.before(d).UnixNano() }

func (t *teamSeeder) before(d time.Duration) time.Time { return t.now.Add(-d) }

// id returns the id of a resource of the team, which depends only on its kind and name.
func (t *teamSeeder) id(kind, name string) string { return id(t.team, kind, name) }

// random returns a generator for one topic of the team. The numbers of a topic do not depend on
// other topics.
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
