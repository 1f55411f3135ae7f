package wiring

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/status"
	"opsgate/cmd/internal/kit/tracing"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

// A limiter is the store of rate limits, with its background tasks and the recorder of demand. It lives as long as the process, so that a
// reload keeps the usage of tokens.
type limiter struct {
	ratelimit.Store // for requests; it also records refunds and resets if demand is recorded

	memory   *ratelimit.Memory // nil if limits are counted in Redis
	shared   *sharedLimits     // nil if limits are counted in memory
	recorder *demand.Recorder  // nil if demand is not recorded
}

// newLimiter creates the store of rate limits, and the recorder of demand if one is configured.
func newLimiter(c common, traces *tracing.Provider) (*limiter, error) {
	l := &limiter{}
	id := rand.Text()
	gateways := func() demand.Gateways { return demand.Gateways{ID: id, Count: 1, IDs: []string{id}} }
	if c.Loaded.RateLimit.Store == config.StoreRedis {
		var err error
		if l.shared, err = newSharedLimits(c, traces); err != nil {
			return nil, err
		}
		l.Store = l.shared
		gateways = l.shared.demandGateways
	} else {
		l.memory = ratelimit.NewMemory(time.Now)
		l.Store = l.memory
	}
	recorder, err := newRecorder(c, gateways)
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	if recorder != nil {
		l.recorder, l.Store = recorder, recordingStore{l.Store, recorder}
	}
	return l, nil
}

// numGateways returns the number of gateways that share the limits of tokens.
func (l *limiter) numGateways() int {
	if l.shared == nil {
		return 1
	}
	return l.shared.gateways.Count()
}

// redis returns what the admin pages show of the counting in Redis; nil if limits are counted in memory.
func (l *limiter) redis() *status.Redis {
	if l.shared == nil {
		return nil
	}
	dividedBy := func() int { return l.shared.failoverSettings().Gateways }
	return &status.Redis{Limits: l.shared.Store, Gateways: l.shared.gateways, DividedBy: dividedBy}
}

// run runs the background tasks of the store until ctx ends. With Redis, they send the status of this gateway to the other gateways.
func (l *limiter) run(ctx context.Context, status func() admin.GatewayStatus) error {
	if l.shared == nil {
		return l.memory.Run(ctx)
	}
	return l.shared.run(ctx, status)
}

// recordEnd ends the record of demand of a gateway that ended without an error, with an entry that promises that Redis has all recorded
// admissions. It writes none if Redis may lack some, or if limits are counted in memory.
func (l *limiter) recordEnd() {
	if l.shared != nil && !l.shared.MayHaveLostAccounts() {
		l.recorder.End()
	}
}

func (l *limiter) close() error {
	err := l.recorder.Close()
	if l.shared != nil {
		err = errors.Join(err, l.shared.close())
	}
	return err
}
