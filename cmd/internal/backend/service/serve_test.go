package service_test

import (
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"opsgate/cmd/internal/backend/service"
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// The transaction of the call is rolled back.
func TestPanicEndsOnlyItsCall(t *testing.T) {
	s, own := startTeam(t)
	s.clock.broken.Store(true)
	_, err := s.incident.CreateIncident(t.Context(), keyed(own, "key-1"))
	mustBe(t, err, codes.Internal)
	if strings.Contains(err.Error(), "broken") {
		t.Errorf("the caller got %v", err)
	}
	s.clock.broken.Store(false)
	s.create(keyed(own, "key-1"))
	if got := s.count("incidents"); got != 1 {
		t.Errorf("%d incidents", got)
	}
}

// The log has the method and the code of a call, and nothing of its request or response.
func TestLogContainsNoPayload(t *testing.T) {
	var log testkit.Buffer
	s := startWith(t, service.Options{
		DataDir: t.TempDir(), Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, &clock{now: start()})
	_, err := s.fleet.ListServers(t.Context(), &fleetv1.ListServersRequest{TeamId: "hunter2"})
	mustBe(t, err, codes.InvalidArgument)
	s.close()
	got := log.String()
	if !strings.Contains(got, "ListServers") || !strings.Contains(got, "InvalidArgument") || strings.Contains(got, "hunter2") {
		t.Errorf("log: %s", got)
	}
}
