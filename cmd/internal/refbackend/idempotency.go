package refbackend

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"opsgate/cmd/internal/refbackend/store/query"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// keyLifetime is how long an idempotency key is remembered.
const keyLifetime = 24 * time.Hour

// A writeRequest is what the requests of all writes have in common.
type writeRequest interface {
	proto.Message
	GetTeamId() string
	GetIdempotencyKey() string
}

// once does a write that fills response, in one transaction, at the time that it is given. With an idempotency key that was
// used before it does nothing, and fills response as the first time.
func (s *incidentService) once(
	ctx context.Context, r writeRequest, response proto.Message, do func(q *query.Queries, now int64) error,
) (replayed bool, err error) {
	if key := r.GetIdempotencyKey(); key != "" {
		// The transaction alone would make the second of two calls wait for the first; the contract has it told at once.
		// Calls in different processes do wait, and the second is a replay.
		name := teamKey{team: r.GetTeamId(), key: key}
		if !s.inFlight.add(name) {
			return false, status.Error(codes.Aborted, "a call with the same idempotency key is still running")
		}
		defer s.inFlight.remove(name)
	}
	err = s.store.Write(ctx, func(q *query.Queries) error {
		if err := requireKnownTeam(ctx, q, r.GetTeamId()); err != nil {
			return err
		}
		now, err := timeOfWrite(ctx, q, s.clock, r.GetTeamId())
		if err != nil {
			return err
		}
		if r.GetIdempotencyKey() == "" {
			return do(q, now)
		}
		w := keyedWrite{request: r, response: response, at: now}
		if replayed, err = w.recall(ctx, q); err != nil || replayed {
			return err
		}
		if err := do(q, now); err != nil {
			return err
		}
		return w.remember(ctx, q)
	})
	return replayed, err
}

// requireKnownTeam refuses to write for a team that is a UUID and no more.
func requireKnownTeam(ctx context.Context, q *query.Queries, team string) error {
	_, err := q.GetTeam(ctx, team)
	if errors.Is(err, sql.ErrNoRows) {
		var problems violations
		problems.add("team_id", "must be a team")
		return problems.err()
	}
	if err != nil {
		return fmt.Errorf("look for the team: %w", err)
	}
	return nil
}

// A keyedWrite is a write whose request carries an idempotency key.
type keyedWrite struct {
	request  writeRequest
	response proto.Message
	at       int64
}

// recall fills the response with the answer that was given to the key, if there is one.
func (w keyedWrite) recall(ctx context.Context, q *query.Queries) (found bool, err error) {
	team, key := w.request.GetTeamId(), w.request.GetIdempotencyKey()
	err = q.DeleteIdempotencyKeys(ctx, query.DeleteIdempotencyKeysParams{
		TeamID: team, Until: w.at - keyLifetime.Nanoseconds(),
	})
	if err != nil {
		return false, fmt.Errorf("forget old idempotency keys: %w", err)
	}
	first, err := q.GetIdempotencyKey(ctx, query.GetIdempotencyKeyParams{TeamID: team, Key: key})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the idempotency key: %w", err)
	}
	mark, err := fingerprint(w.request)
	if err != nil {
		return false, err
	}
	if subtle.ConstantTimeCompare(mark, first.Fingerprint) == 0 {
		var problems violations
		problems.add("idempotency_key", "was used with another request in the last 24 hours")
		return false, problems.err()
	}
	if err := proto.Unmarshal(first.Response, w.response); err != nil {
		return false, fmt.Errorf("read the remembered answer: %w", err)
	}
	return true, nil
}

// remember keeps the answer that is given to the key.
func (w keyedWrite) remember(ctx context.Context, q *query.Queries) error {
	mark, err := fingerprint(w.request)
	if err != nil {
		return err
	}
	answer, err := proto.Marshal(w.response)
	if err != nil {
		return fmt.Errorf("keep the answer: %w", err)
	}
	err = q.InsertIdempotencyKey(ctx, query.InsertIdempotencyKeyParams{
		TeamID: w.request.GetTeamId(), Key: w.request.GetIdempotencyKey(),
		Fingerprint: mark, Response: answer, CreatedAt: w.at,
	})
	if err != nil {
		return fmt.Errorf("remember the idempotency key: %w", err)
	}
	return nil
}

// fingerprint tells one normalised request from another, whoever makes it. The type's name stands for the method.
func fingerprint(r writeRequest) ([]byte, error) {
	bare := proto.Clone(r)
	message := bare.ProtoReflect()
	if actor := message.Descriptor().Fields().ByName(actorField); actor != nil {
		message.Clear(actor)
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(bare)
	if err != nil {
		return nil, fmt.Errorf("take the request's fingerprint: %w", err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", message.Descriptor().FullName())
	hash.Write(text)
	return hash.Sum(nil), nil
}

// actorField is the one field that two equal requests may differ in.
const actorField protoreflect.Name = "actor"

var _ = [...]writeRequest{(*incidentv1.CreateIncidentRequest)(nil), (*incidentv1.AddIncidentUpdateRequest)(nil)}

// A teamKey is an idempotency key, which belongs to a team.
type teamKey struct{ team, key string }

// A keySet holds the keys of calls that are running.
type keySet struct {
	mu   sync.Mutex
	keys map[teamKey]struct{}
}

func newKeySet() *keySet { return &keySet{keys: map[teamKey]struct{}{}} }

// add returns false if the key is there already.
func (s *keySet) add(k teamKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.keys[k]; there {
		return false
	}
	s.keys[k] = struct{}{}
	return true
}

func (s *keySet) remove(k teamKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, k)
}
