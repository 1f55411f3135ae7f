package backendclient_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

func TestAppliedSettingsHoldForTheNextCall(t *testing.T) {
	b := &backend{getServer: func(context.Context) (*fleetv1.GetServerResponse, error) {
		return &fleetv1.GetServerResponse{Server: &fleetv1.Server{Name: strings.Repeat("x", 100_000)}}, nil
	}}
	clients, small := over(t, b), backendclient.DefaultSettings()
	small.MaxResponseBytes = 50_000
	if err := getServer(t, clients); err != nil {
		t.Error(err)
	}
	clients.Apply(small)
	err := getServer(t, clients)
	if e := failure(t, err); e.Code != codes.Internal || status.Code(err) != codes.Internal || !e.TooLarge { // not a rate limit
		t.Errorf("code %v, status %v, too large: %v", e.Code, status.Code(err), e.TooLarge)
	}
	clients.Apply(backendclient.DefaultSettings())
	if err := getServer(t, clients); err != nil {
		t.Error(err)
	}
}

func TestACallKeepsTheSettingsOfItsStart(t *testing.T) {
	var clients *backendclient.Clients
	w := &wire{answer: func(context.Context) error {
		s := backendclient.DefaultSettings()
		s.Retries.Max = 0
		clients.Apply(s)
		return unavailable
	}}
	clients = overWire(t, w)
	_ = call(t, clients)
	if n := w.attempts.Load(); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
	_ = call(t, clients)
	if n := w.attempts.Load(); n != 4 {
		t.Errorf("%d attempts of the next call, want 1", n-3)
	}
}

func TestInvalidSettings(t *testing.T) {
	if err := backendclient.DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*backendclient.Settings){
		func(s *backendclient.Settings) { s.MaxResponseBytes = 0 },
		func(s *backendclient.Settings) { s.MaxInFlight = 0 },
		func(s *backendclient.Settings) { s.Retries.Max = 6 },
		func(s *backendclient.Settings) { s.Retries.Budget = 2 },
		func(s *backendclient.Settings) { s.Breaker.Window = -1 },
		func(s *backendclient.Settings) { s.Breaker.MinRequests = 0 },
		func(s *backendclient.Settings) { s.Breaker.FailureRate = 0 },
		func(s *backendclient.Settings) { s.Breaker.OpenFor = 0 },
	} {
		s := backendclient.DefaultSettings()
		change(&s)
		if s.Validate() == nil {
			t.Errorf("no error for %+v", s)
		}
	}
}
