package wiring

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"opsgate/cmd/internal/gate/config"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
	"opsgate/ratelimit/redisstore"
)

// newRecorder opens the record of demand. It returns nil, which can be closed, if none is configured.
func newRecorder(c common, gateways func() demand.Gateways) (*demand.Recorder, error) {
	record := c.Loaded.RateLimit.Demand
	if record.File == "" {
		return nil, nil
	}
	return demand.NewRecorder(demand.Options{
		Path: record.File, Sample: record.Sample.Fraction(), MaxBytes: int64(record.MaxBytes), Gateways: gateways,
		Store: storeID(&c.Loaded.RateLimit), Logger: c.Logger, Registerer: c.registry,
	})
}

// storeID returns a hash of where Redis has the accounts; "" if they are in the memory of the gateway.
func storeID(c *config.RateLimit) string {
	if c.Store != config.StoreRedis {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []any{
		c.Redis.Addresses, c.Redis.Mode, c.Redis.MasterName, strconv.Itoa(c.Redis.Database), redisstore.AccountPrefix(c.Redis.KeyPrefix),
	}))
	return hex.EncodeToString(sum[:6])
}

// A recordingStore records refunds and resets.
type recordingStore struct {
	ratelimit.Store

	recorder *demand.Recorder
}

// Refund implements [ratelimit.Store].
func (r recordingStore) Refund(ctx context.Context, tokenID string, d ratelimit.Decision) error {
	err := r.Store.Refund(ctx, tokenID, d)
	if err == nil {
		r.recorder.Refunded(tokenID, &d)
	}
	return err
}

// Reset implements [ratelimit.Store].
func (r recordingStore) Reset(ctx context.Context, tokenID string) error {
	err := r.Store.Reset(ctx, tokenID)
	if err == nil {
		r.recorder.Reset(tokenID)
	}
	return err
}
