package service_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/testkit"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

const (
	openBound   = 1000
	updateBound = 2000
	byteBound   = 1 << 20
)

// fillIncidents inserts n open incidents.
func (s *system) fillIncidents(t team, n int) {
	s.t.Helper()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		for range n {
			err := q.InsertIncident(ctx, query.InsertIncidentParams{
				ID: uuid.NewString(), TeamID: t.id, Title: "Open", Status: "monitoring", Impact: "none", AffectsPage: true,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// fillUpdates inserts n updates with a text, the last of them now.
func (s *system) fillUpdates(t team, incident string, n int, text string) {
	s.t.Helper()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		for i := range n {
			err := q.InsertIncidentUpdate(ctx, query.InsertIncidentUpdateParams{
				ID: uuid.NewString(), TeamID: t.id, IncidentID: incident, Status: "monitoring", Message: text,
				CreatedAt: s.clock.Now().UnixNano() - int64(n-1-i),
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// refusal posts an update, and returns the violations; nil if there are none.
func (s *system) refusal(r *incidentv1.AddIncidentUpdateRequest) map[string]string {
	s.t.Helper()
	_, err := s.incident.AddIncidentUpdate(s.t.Context(), r)
	if err == nil {
		return nil
	}
	return violated(s.t, err)
}

func withStatus(r *incidentv1.AddIncidentUpdateRequest, status incidentv1.IncidentStatus) *incidentv1.AddIncidentUpdateRequest {
	r = proto.CloneOf(r)
	r.Status = status
	return r
}

func TestOpenIncidentTooManyIsRefused(t *testing.T) {
	s := startSystem(t)
	own, other := s.team("harbour"), s.team("lighthouse")
	done := newIncident(own, "Resolved before")
	done.Status = resolved
	before := s.create(done)
	s.fillIncidents(own, openBound-1)
	last := newIncident(own, "The last one")
	last.IdempotencyKey = "last"
	id := s.create(last).GetId()

	_, err := s.incident.CreateIncident(t.Context(), newIncident(own, "One too many"))
	if fields := violated(t, err); len(fields) != 1 || !strings.Contains(fields["title"], fmt.Sprint(openBound)) {
		t.Errorf("an incident too many: %v", fields)
	}
	if fields := s.refusal(newUpdate(own, before.GetId())); len(fields) != 1 || !strings.Contains(fields["message"], fmt.Sprint(openBound)) {
		t.Errorf("reopened: %v", fields)
	}
	if again, err := s.incident.CreateIncident(t.Context(), last); err != nil || !again.GetReplayed() || again.GetIncident().GetId() != id {
		t.Errorf("the replay of the last one: %v, %v", again, err)
	}
	s.create(done) // does not open an incident
	s.create(newIncident(other, "Of another team"))
	if fields := s.refusal(newUpdate(own, id)); fields != nil {
		t.Errorf("an update of an open incident: %v", fields)
	}
	if fields := s.refusal(withStatus(newUpdate(own, id), resolved)); fields != nil {
		t.Errorf("resolved: %v", fields)
	}
	s.create(newIncident(own, "In its place"))
}

// A monitor that goes down has an incident, regardless of how many the team has.
func TestMonitorOpensAnIncidentBeyondTheBound(t *testing.T) {
	s, own := startTeam(t)
	s.exec("UPDATE monitors SET opens_incidents = 1, enabled = 1")
	s.fillIncidents(own, openBound)
	for range 3 {
		s.clock.Move(time.Minute)
		testkit.Must(t, s.record(own.monitor, s.clock.Now(), "down"))
	}
	if n := s.count("incidents"); n != openBound+1 {
		t.Errorf("%d incidents", n)
	}
}

// A full incident accepts no update but the one that resolves it, however large.
func TestUpdateTooManyIsRefused(t *testing.T) {
	const large = 10_000
	for name, c := range map[string]struct {
		updates int // before
		text    string
		valid   int // length of the text of the last valid update
	}{
		"number": {updateBound - 2, "m", large},
		"bytes":  {byteBound / large, strings.Repeat("m", large), byteBound - byteBound/large*large - len("We are on it.")},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSystem(t)
			own := s.team("harbour")
			id := s.create(newIncident(own, "Long")).GetId()
			s.fillUpdates(own, id, c.updates, c.text)
			s.clock.Move(time.Second)
			last := newUpdate(own, id)
			last.Message, last.IdempotencyKey = strings.Repeat("m", c.valid), "last"
			if fields := s.refusal(last); fields != nil {
				t.Fatalf("the last update: %v", fields)
			}
			full := newUpdate(own, id)
			fields := s.refusal(full)
			if len(fields) != 1 || !strings.Contains(fields["message"], fmt.Sprint(updateBound)) || !strings.Contains(fields["message"], fmt.Sprint(byteBound)) {
				t.Errorf("an update too many: %v", fields)
			}
			if fields := s.refusal(last); fields != nil {
				t.Errorf("the replay of the last update: %v", fields)
			}
			end := withStatus(full, resolved)
			end.Message = strings.Repeat("😀", large)
			if fields := s.refusal(end); fields != nil {
				t.Errorf("resolved: %v", fields)
			}
			for _, status := range []incidentv1.IncidentStatus{resolved, full.GetStatus()} {
				if fields := s.refusal(withStatus(full, status)); fields["message"] == "" {
					t.Errorf("%v after it was resolved: %v", status, fields)
				}
			}
			response := s.get(own, id)
			if got, want := len(response.GetUpdates()), c.updates+3; got != want || response.GetUpdates()[got-1].GetMessage() != end.GetMessage() {
				t.Errorf("%d updates, want %d", got, want)
			}
		})
	}
}

// Two processes write updates of an incident at the same time. As many are accepted as fit exactly,
// in bytes of UTF-8.
func TestConcurrentUpdatesDoNotExceedTheBound(t *testing.T) {
	s := startSystem(t)
	processes := []*system{s, startOn(t, s.dir, s.clock)}
	own := s.team("harbour")
	id := s.create(newIncident(own, "Long")).GetId()
	const fit = 3
	update := newUpdate(own, id)
	update.Message = strings.Repeat("é", 500)
	s.fillUpdates(own, id, 1, strings.Repeat("m", byteBound-len("We are on it.")-fit*len(update.GetMessage())))
	var accepted, refused atomic.Int64
	var writing sync.WaitGroup
	for i := range 8 * fit {
		writing.Go(func() {
			switch _, err := processes[i%2].incident.AddIncidentUpdate(t.Context(), update); status.Code(err) {
			case codes.OK:
				accepted.Add(1)
			case codes.InvalidArgument:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	writing.Wait()
	bytes := 0
	for _, u := range s.get(own, id).GetUpdates() {
		bytes += len(u.GetMessage())
	}
	if accepted.Load() != fit || refused.Load() != 7*fit || bytes != byteBound {
		t.Errorf("%d accepted, %d refused, %d bytes", accepted.Load(), refused.Load(), bytes)
	}
}

// An incident from before the bounds has its newest updates, and can be resolved.
func TestIncidentBeyondTheBoundsHasItsNewestUpdates(t *testing.T) {
	s, own := startTeam(t)
	id := s.create(newIncident(own, "Very long")).GetId()
	s.clock.Move(time.Second)
	s.fillUpdates(own, id, 210, strings.Repeat("😀", 10_000))
	s.clock.Move(time.Second)
	if fields := s.refusal(withStatus(newUpdate(own, id), resolved)); fields != nil {
		t.Errorf("resolved: %v", fields)
	}
	response := s.get(own, id)
	updates := response.GetUpdates()
	if n := len(updates); n != 28 || updates[n-1].GetMessage() != "Found it." {
		t.Errorf("%d updates", n)
	}
	oldestFirst := func(a, b *incidentv1.IncidentUpdate) int {
		return a.GetCreatedAt().AsTime().Compare(b.GetCreatedAt().AsTime())
	}
	if !slices.IsSortedFunc(updates, oldestFirst) || proto.Size(response) > 5<<18 {
		t.Errorf("%d bytes, or in another order than oldest first", proto.Size(response))
	}
}

// What a dashboard creates is bounded, because lists return all of it.
func TestDashboardCannotCreateTooMuch(t *testing.T) {
	s, own := startTeam(t)
	server := query.InsertServerParams{TeamID: own.id, Tags: "[]"}
	insert := func(n int, name string) error {
		return s.backend.Store().Write(t.Context(), func(q *query.Queries) error {
			for range n {
				server.ID, server.Name = uuid.NewString(), name
				if err := q.InsertServer(t.Context(), server); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := insert(1, strings.Repeat("n", 4097)); err == nil || !strings.Contains(err.Error(), "4096 bytes") {
		t.Errorf("a large server: %v", err)
	}
	testkit.Must(t, insert(999, "one of many"))
	if err := insert(1, "one too many"); err == nil || !strings.Contains(err.Error(), "at most 1000 servers") {
		t.Errorf("a server too many: %v", err)
	}
}

// Tokens are resolved while other queries occupy all other connections.
func TestSlowQueriesDoNotDelayTokens(t *testing.T) {
	s := startSystem(t)
	s.team("harbour")
	release := make(chan struct{})
	defer close(release)
	const readers = 64 // more than there are connections
	busy := make(chan error, readers)
	for range readers {
		go func() {
			busy <- s.backend.Store().Read(context.Background(), func(*query.Queries) error {
				<-release
				return nil
			})
		}()
	}
	within, stop := context.WithTimeout(t.Context(), testkit.MaxWait)
	defer stop()
	var waiting error
	for waiting == nil { // another read waits for a connection once all are occupied
		ctx, cancel := context.WithTimeout(within, 50*time.Millisecond)
		waiting = s.backend.Store().Read(ctx, func(*query.Queries) error { return nil })
		cancel()
	}
	_, err := s.identity.ResolveToken(within, &identityv1.ResolveTokenRequest{TokenSha256: make([]byte, sha256.Size)})
	mustBe(t, err, codes.NotFound)
}
