package demand_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// redisStore returns a store in the server, as a gateway has it.
func redisStore(t *testing.T, server *redistest.Server) *redisstore.Store {
	t.Helper()
	client, err := redisstore.NewClient(redisstore.ClientOptions{
		Addresses: []string{server.Addr()}, PoolSize: 8, Timeout: 5 * time.Second, DialTimeout: 5 * time.Second,
	})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	store, err := redisstore.New(redisstore.Options{
		Client: client, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	testkit.Must(t, err)
	return store
}

// ask makes requests of four tokens, with refunds, resets and a change of the policy half way.
func ask(t *testing.T, store *redisstore.Store, r *recording, policies [2]*ratelimit.Policy) {
	t.Helper()
	ctx := context.Background()
	for i := range 500 {
		id, p := fmt.Sprintf("tok_%d", rand.IntN(4)), policies[i/250]
		d, err := store.Decide(ctx, id, p)
		if err != nil {
			t.Error(err)
			return
		}
		r.Decided("", id, "harbour", p, &d)
		switch rand.IntN(40) {
		case 0, 1:
			if store.Refund(ctx, id, d) == nil {
				r.Refunded(id, &d)
			}
		case 2:
			if id == "tok_0" && store.Reset(ctx, id) == nil {
				r.Reset(id)
			}
		}
	}
}

func TestAuditOfGatewaysThatShareARedis(t *testing.T) {
	server := redistest.Start(t)
	policies := [2]*ratelimit.Policy{
		policyOf(t, limit("moment", 5, 30*time.Millisecond), limit("second", 80, time.Second)),
		policyOf(t, limit("moment", 2, 40*time.Millisecond), limit("second", 60, time.Second)),
	}
	var paths []string
	var recordings []*recording
	var gateways sync.WaitGroup
	for range 2 {
		r := record(t, demand.Options{Path: path(t)})
		recordings, paths = append(recordings, r), append(paths, r.path)
		store := redisStore(t, server)
		gateways.Go(func() {
			for range 2 { // clients
				gateways.Go(func() { ask(t, store, r, policies) })
			}
		})
	}
	gateways.Wait()
	for _, r := range recordings {
		r.stop()
	}
	events, _ := read(t, paths...)
	got := audited(t, events)
	if got.Violations() > 0 || len(got.Tokens) != 4 || got.Requests != 2000 || got.Refunded == 0 || got.Unknown > 0 {
		t.Fatalf("got %+v", got)
	}
	for _, k := range got.Tokens {
		for _, w := range k.NotProved {
			if w.Cause.Kind != demand.LimitsChanged && k.TokenID != "tok_0" {
				t.Errorf("%s: got %+v", k.TokenID, w)
			}
		}
	}
	// Only the records of both gateways together show what a token was admitted.
	both := got.Tokens[0].Worst.Admitted
	one, _ := read(t, paths[0])
	if alone := audited(t, one).Admitted; alone >= got.Admitted || both == 0 {
		t.Errorf("%d admitted by one of two gateways, %d by both", alone, got.Admitted)
	}
	planted := demand.Event{At: events[len(events)/2].At, TeamID: "harbour", Allowed: true, Policy: policies[1]}
	var extra []demand.Event
	for i := range 60 {
		planted.TokenID, planted.At = "tok_planted", planted.At.Add(time.Duration(i))
		extra = append(extra, planted)
	}
	if got := audited(t, append(events, extra...)); got.Violations() != 1 || got.Tokens[0].TokenID != "tok_planted" {
		t.Errorf("got %+v", got)
	}
}
