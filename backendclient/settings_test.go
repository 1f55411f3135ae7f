package backendclient_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"opsgate/backendclient"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// under returns clients of the same connections with other bounds.
func under(t *testing.T, clients *backendclient.Clients, s backendclient.Settings) *backendclient.Clients {
	t.Helper()
	others, err := clients.With(s)
	if err != nil {
		t.Fatal(err)
	}
	return others
}

func TestCallsGoByTheSettingsOfTheirClients(t *testing.T) {
	var left time.Duration
	b := &backend{getServer: func(ctx context.Context) (*fleetv1.GetServerResponse, error) {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline).Round(time.Minute)
		return &fleetv1.GetServerResponse{Server: &fleetv1.Server{Name: strings.Repeat("x", 100_000)}}, nil
	}}
	first := over(t, b, func(o *backendclient.Options) { o.DeadlineMargin = 20 * time.Minute })
	others := under(t, first, backendclient.Settings{DeadlineMargin: 30 * time.Minute, DefaultTimeout: 2 * time.Hour})
	strict := under(t, others, backendclient.Settings{MaxResponseBytes: 50_000})
	hour, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, test := range []struct {
		name    string
		clients *backendclient.Clients
		ctx     context.Context
		left    time.Duration
		code    codes.Code
	}{
		{"the first margin", first, hour, 40 * time.Minute, codes.OK},
		{"another margin", others, hour, 30 * time.Minute, codes.OK},
		{"another default", others, t.Context(), 2 * time.Hour, codes.OK},
		{"an answer that is too large", strict, hour, time.Hour, codes.Internal},
		{"the first margin again", first, hour, 40 * time.Minute, codes.OK},
	} {
		_, err := test.clients.Fleet.GetServer(test.ctx, &fleetv1.GetServerRequest{})
		code := codes.OK
		if err != nil {
			code = failure(t, err).Code
		}
		if left != test.left || code != test.code {
			t.Errorf("%s: %v left, code %v", test.name, left, code)
		}
	}
	if states := strict.States(); len(states) != 5 {
		t.Errorf("states %v", states)
	}
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	if _, err := over(t, &backend{}).With(backendclient.Settings{DeadlineMargin: -1}); err == nil {
		t.Error("no error")
	}
}
