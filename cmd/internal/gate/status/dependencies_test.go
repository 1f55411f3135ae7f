package status

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/failover"
)

func TestClosedBreakerOfRedisHasNotTripped(t *testing.T) {
	store, err := failover.New(failover.Options{
		Shared: struct{ failover.Shared }{}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	testkit.Must(t, err)
	d := (&Redis{Limits: store}).dependency(time.Now())
	if b := d.Breaker; !d.OK || b.State != "closed" || !b.TrippedAt.IsZero() {
		t.Errorf("%+v, breaker %+v", d, b)
	}
}
