package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"opsgate/ratelimit"
)

// maxSpendings bounds what one call tells of a token's past.
const maxSpendings = 200

// Settle brings the account of a token up to date when Redis is back. It is to be called once by each gateway, before it decides
// on the token. What the gateway admitted during the outage counts in any case; what it knew to have been spent before counts
// only where Redis has lost it, and only once, whichever gateways know of it. Both are newest first, their ages as of now.
func (s *Store) Settle(ctx context.Context, tokenID string, p *ratelimit.Policy, before, during []ratelimit.Spending) error {
	pl := s.plans.of(p)
	start := time.Now()
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	_, err := s.run(bounded, &s.settleScript,
		s.settleScript.args(s.keys+tokenID, pl.signature, pl.ttl, s.scriptTime(), packed(before), packed(during)))
	s.metrics.settle.observe(ctx, start, err)
	s.refusals.drop(tokenID)
	if err != nil {
		return fmt.Errorf("settling with redis: %w", err)
	}
	return nil
}

// packed writes spendings as settle.lua reads them: age in µs, rounded down so that none counts too short, and number. Where
// there are many, neighbours become one of the younger's age.
func packed(list []ratelimit.Spending) string {
	group := (len(list) + maxSpendings - 1) / maxSpendings
	var b []byte
	for i := 0; i < len(list); i += group {
		n := 0
		for _, sp := range list[i:min(i+group, len(list))] {
			n += sp.N
		}
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(list[i].Age/time.Microsecond)))
		b = binary.LittleEndian.AppendUint32(b, uint32(min(n, math.MaxUint32)))
	}
	return string(b)
}
