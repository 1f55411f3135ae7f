package service

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/cmd/internal/backend/store/query"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// revocationBatch is the maximum number of revocations that one query reads.
const revocationBatch = 500

type revocationStream = grpc.ServerStreamingServer[identityv1.WatchRevocationsResponse]

func (s *identityService) WatchRevocations(r *identityv1.WatchRevocationsRequest, stream revocationStream) error {
	at, err := s.startWatching(stream.Context(), r.GetAfterPosition())
	if err != nil {
		return err
	}
	if err := stream.Send(&identityv1.WatchRevocationsResponse{Position: at.String()}); err != nil {
		return err
	}
	heartbeat, poll := time.NewTimer(s.options.Heartbeat), time.NewTicker(s.options.RevocationPoll)
	defer heartbeat.Stop()
	defer poll.Stop()
	for {
		raised := s.revoked.wait() // before the query, so that no revocation after it is missed
		next, err := s.sendRevocations(stream, at)
		if err != nil {
			return err
		}
		if next != at {
			at = next
			heartbeat.Reset(s.options.Heartbeat)
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-s.stopping:
			return status.Error(codes.Unavailable, "the service is stopping")
		case <-raised:
		case <-poll.C:
		case <-heartbeat.C:
			if err := stream.Send(&identityv1.WatchRevocationsResponse{Position: at.String()}); err != nil {
				return err
			}
			heartbeat.Reset(s.options.Heartbeat)
		}
	}
}

// startWatching returns the position that a stream starts from: that of the client, or the last
// one.
func (s *identityService) startWatching(ctx context.Context, after string) (at position, err error) {
	err = s.store.ReadTokens(ctx, func(q *query.Queries) error {
		if at.installation, err = q.GetInstallation(ctx); err != nil {
			return fmt.Errorf("read the installation's id: %w", err)
		}
		if at.number, err = q.LastRevocationAnyTeam(ctx); err != nil {
			return fmt.Errorf("read the last revocation: %w", err)
		}
		if after == "" {
			return nil
		}
		requested, ok := parsePosition(after)
		if !ok || requested.installation != at.installation || requested.number > at.number {
			return status.Error(codes.OutOfRange, "the position is unknown: watch without a position")
		}
		at = requested
		return nil
	})
	return at, err
}

// sendRevocations sends the revocations after a position, and returns the new position.
func (s *identityService) sendRevocations(stream revocationStream, at position) (position, error) {
	for {
		var rows []query.Revocation
		err := s.store.ReadTokens(stream.Context(), func(q *query.Queries) (err error) {
			rows, err = q.ListRevocationsAfterAnyTeam(stream.Context(),
				query.ListRevocationsAfterAnyTeamParams{Position: at.number, PageSize: revocationBatch})
			return err
		})
		if err != nil {
			return at, fmt.Errorf("read the revocations: %w", err)
		}
		for _, row := range rows {
			at.number = row.Position
			err := stream.Send(&identityv1.WatchRevocationsResponse{
				Position: at.String(),
				Revocation: &identityv1.Revocation{
					TokenId: row.TokenID, TokenSha256: row.TokenSha256, RevokedAt: timestamp(row.RevokedAt),
				},
			})
			if err != nil {
				return at, err
			}
		}
		if len(rows) < revocationBatch {
			return at, nil
		}
	}
}

// A position is the number of the last revocation that a client has received, and the id of the
// database, because another database numbers its revocations independently.
type position struct {
	installation string
	number       int64
}

func (p position) String() string { return p.installation + "." + strconv.FormatInt(p.number, 10) }

func parsePosition(text string) (p position, ok bool) {
	installation, digits, _ := strings.Cut(text, ".")
	number, err := strconv.ParseInt(digits, 10, 64)
	p = position{installation: installation, number: number}
	return p, err == nil && number >= 0 && p.String() == text
}

// A signal notifies all goroutines that wait for it.
type signal struct {
	mu   sync.Mutex
	next chan struct{}
}

func newSignal() *signal { return &signal{next: make(chan struct{})} }

// wait returns a channel that is closed at the next raise.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.next)
	s.next = make(chan struct{})
}
