package status

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// startGateway returns the heartbeats of a gateway, as they run.
func startGateway(t *testing.T, redis, host string) *redisstore.Gateways {
	t.Helper()
	client, err := redisstore.NewClient(redisstore.ClientOptions{Addresses: []string{redis}, Timeout: time.Second})
	testkit.Must(t, err)
	r, err := redisstore.NewGateways(redisstore.GatewaysOptions{
		Client: client, Interval: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	status := admin.GatewayStatus{Host: host, Mode: "shared", At: time.Now()}
	go func() { ended <- r.Run(ctx, status.Encode, func(int, int) {}) }()
	t.Cleanup(func() {
		stop()
		testkit.Must(t, <-ended)
		testkit.Must(t, client.Close())
	})
	return r
}

// The other gateways remain visible for an hour after the last read, whether Redis was lost or no page was open.
func TestLastReadingIsShownForAnHour(t *testing.T) {
	server, now := redistest.Start(t), time.Now()
	p := newPeers(startGateway(t, server.Addr(), "gate-1"), func() time.Time { return now })
	startGateway(t, server.Addr(), "gate-2")
	self := admin.GatewayStatus{Host: "gate-1"}
	testkit.Eventually(t, "both are read", func() bool {
		now = now.Add(minReadInterval)
		p.read(t.Context(), self)
		v := p.view(self)
		return len(v.Gateways) == 2 && v.Gateways[1].Host == "gate-2"
	})
	readAt := now
	check := func(state admin.GatewaysState, gateways int) {
		t.Helper()
		v := p.view(self)
		if v.State != state || len(v.Gateways) != gateways || (v.ReadAt != nil) != (gateways == 2) || (v.Error != "") != (state == admin.GatewaysStale) {
			t.Errorf("%v after the read: %+v", now.Sub(readAt), v)
		}
	}
	check(admin.GatewaysCurrent, 2)
	now = readAt.Add(currentFor)
	check(admin.GatewaysReading, 2)
	server.Kill()
	p.read(t.Context(), self)
	check(admin.GatewaysStale, 2)
	now = readAt.Add(shownFor - time.Second)
	p.read(t.Context(), self)
	check(admin.GatewaysStale, 2)
	now = readAt.Add(shownFor)
	check(admin.GatewaysStale, 1)
}
