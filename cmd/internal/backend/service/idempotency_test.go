package service_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"opsgate/internal/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// keyed returns a valid request with an idempotency key.
func keyed(t team, key string) *incidentv1.CreateIncidentRequest {
	r := newIncident(t, "Once")
	r.IdempotencyKey = key
	return r
}

func TestKeysAreStoredForADay(t *testing.T) {
	s, own := startTeam(t)
	r := keyed(own, "key-1")
	r.StatusPageId = &own.page
	first, err := s.incident.CreateIncident(t.Context(), r)
	testkit.Must(t, err)
	if first.GetReplayed() {
		t.Error("the first response has replayed set")
	}
	s.clock.Move(24*time.Hour - time.Second)
	s = s.restart() // keys survive a restart
	again := proto.CloneOf(r)
	again.Actor = &incidentv1.Actor{TokenId: own.id, IpAddress: "2001:db8::1", RequestId: "another"}
	again.Title = " Once "
	replay, err := s.incident.CreateIncident(t.Context(), again)
	testkit.Must(t, err)
	if !replay.GetReplayed() || !proto.Equal(replay.GetIncident(), first.GetIncident()) {
		t.Errorf("replay %v of %v", replay, first)
	}
	if s.count("incidents") != 1 || s.count("notifications") != 1 || s.count("idempotency_keys") != 1 {
		t.Error("the replay wrote rows")
	}
	s.clock.Move(2 * time.Second)
	if later := s.create(r); later.GetId() == first.GetIncident().GetId() {
		t.Error("the key has not expired after a day")
	}
}

func TestWritesButNotReplaysAreSignalled(t *testing.T) {
	s := startSystem(t)
	r := keyed(s.team("harbour"), "key-1")
	for _, want := range []bool{true, false} {
		written := s.backend.Written()
		_, err := s.incident.CreateIncident(t.Context(), r)
		testkit.Must(t, err)
		select {
		case <-written:
			if !want {
				t.Error("a replay was signalled")
			}
		default:
			if want {
				t.Error("a write was not signalled")
			}
		}
	}
}

// While another process has locked the file, one of two calls with a key waits, and the other is
// ABORTED at once.
func TestSecondCallIsAbortedWhileTheFirstIsInProgress(t *testing.T) {
	s, own := startTeam(t)
	release := s.holdFile()
	answers := make(chan error, 2)
	for range cap(answers) {
		go func() {
			_, err := s.incident.CreateIncident(t.Context(), keyed(own, "key-1"))
			answers <- err
		}()
	}
	mustBe(t, <-answers, codes.Aborted)
	release()
	testkit.Must(t, <-answers)
	if got := s.count("incidents"); got != 1 {
		t.Errorf("%d incidents", got)
	}
}

// holdFile begins a write transaction like another process, until release is called.
func (s *system) holdFile() (release func()) {
	s.t.Helper()
	tx, err := s.file().Begin()
	testkit.Must(s.t, err)
	return func() { testkit.Must(s.t, tx.Rollback()) }
}
