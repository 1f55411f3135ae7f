package service

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/store/query"
)

// keyLifetime is how long an idempotency key is valid. Maintain deletes expired keys that are not
// used again.
const keyLifetime = 24 * time.Hour

// A writeRequest is the request of a write.
type writeRequest interface {
	proto.Message
	GetTeamId() string
	GetIdempotencyKey() string
}

// executeOnce executes a write in one transaction. The function do receives the time of the write
// and sets response. If the idempotency key was used before, executeOnce does not call do: it sets
// response to the stored response.
func (s *incidentService) executeOnce(
	ctx context.Context, r writeRequest, response proto.Message, do func(q *query.Queries, now int64) error,
) (replayed bool, err error) {
	if key := r.GetIdempotencyKey(); key != "" {
		// Without this set, a second concurrent call would wait for the transaction of the first.
		// The contract allows that, but the call would hold a place in the queue of writers. A call
		// in another process does wait, and is then a replay.
		name := teamKey{team: r.GetTeamId(), key: key}
		if _, inProgress := s.inFlight.LoadOrStore(name, nil); inProgress {
			return false, status.Error(codes.Aborted, "a call with the same idempotency key is in progress")
		}
		defer s.inFlight.Delete(name)
	}
	err = s.store.Write(ctx, func(q *query.Queries) error {
		if err := requireKnownTeam(ctx, q, r.GetTeamId()); err != nil {
			return err
		}
		now, err := audit.TimeOfWrite(ctx, q, s.options.Clock, r.GetTeamId())
		if err != nil {
			return err
		}
		if r.GetIdempotencyKey() == "" {
			return do(q, now)
		}
		w := keyedWrite{request: r, response: response, at: now}
		if w.fingerprint, err = fingerprint(r); err != nil {
			return err
		}
		if replayed, err = w.replay(ctx, q); err != nil || replayed {
			return err
		}
		if err := do(q, now); err != nil {
			return err
		}
		return w.store(ctx, q)
	})
	if err == nil && !replayed {
		s.written.raise()
	}
	return replayed, err
}

// requireKnownTeam returns INVALID_ARGUMENT if the team does not exist.
func requireKnownTeam(ctx context.Context, q *query.Queries, team string) error {
	_, err := q.GetTeam(ctx, team)
	if errors.Is(err, sql.ErrNoRows) {
		return invalidField("team_id", "must be an existing team")
	}
	if err != nil {
		return fmt.Errorf("look for the team: %w", err)
	}
	return nil
}

// A keyedWrite is a write whose request carries an idempotency key.
type keyedWrite struct {
	request     writeRequest
	fingerprint []byte
	response    proto.Message
	at          int64
}

// replay sets the response to the stored response of the key. It returns false if the key is new.
func (w keyedWrite) replay(ctx context.Context, q *query.Queries) (found bool, err error) {
	team, key := w.request.GetTeamId(), w.request.GetIdempotencyKey()
	err = q.DeleteIdempotencyKeyIfExpired(ctx, query.DeleteIdempotencyKeyIfExpiredParams{
		TeamID: team, Key: key, Until: w.at - keyLifetime.Nanoseconds(),
	})
	if err != nil {
		return false, fmt.Errorf("delete the expired idempotency key: %w", err)
	}
	first, err := q.GetIdempotencyKey(ctx, query.GetIdempotencyKeyParams{TeamID: team, Key: key})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the idempotency key: %w", err)
	}
	if subtle.ConstantTimeCompare(w.fingerprint, first.Fingerprint) == 0 {
		return false, invalidField("idempotency_key", "was used "+w.difference(first)+" in the last 24 hours")
	}
	if err := proto.Unmarshal(first.Response, w.response); err != nil {
		return false, fmt.Errorf("decode the stored response: %w", err)
	}
	return true, nil
}

// difference describes how the request differs from the first request of its key.
func (w keyedWrite) difference(first query.IdempotencyKey) string {
	if first.Request == w.kind() {
		return "with another body or path"
	}
	return "for another operation"
}

// kind returns the type of the request, which identifies the method.
func (w keyedWrite) kind() string { return string(w.request.ProtoReflect().Descriptor().Name()) }

// store stores the response under the key.
func (w keyedWrite) store(ctx context.Context, q *query.Queries) error {
	response, err := proto.Marshal(w.response)
	if err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	err = q.InsertIdempotencyKey(ctx, query.InsertIdempotencyKeyParams{
		TeamID: w.request.GetTeamId(), Key: w.request.GetIdempotencyKey(),
		Request: w.kind(), Fingerprint: w.fingerprint, Response: response, CreatedAt: w.at,
	})
	if err != nil {
		return fmt.Errorf("store the idempotency key: %w", err)
	}
	return nil
}

// fingerprint returns a hash of a normalised request without its actor. It includes the type, which
// identifies the method.
func fingerprint(r writeRequest) ([]byte, error) {
	bare := proto.Clone(r)
	message := bare.ProtoReflect()
	if actor := message.Descriptor().Fields().ByName(actorField); actor != nil {
		message.Clear(actor)
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(bare)
	if err != nil {
		return nil, fmt.Errorf("encode the request for its fingerprint: %w", err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", message.Descriptor().FullName())
	hash.Write(text)
	return hash.Sum(nil), nil
}

// actorField may differ between two requests with one key.
const actorField protoreflect.Name = "actor"

// A teamKey is an idempotency key of a team.
type teamKey struct{ team, key string }
