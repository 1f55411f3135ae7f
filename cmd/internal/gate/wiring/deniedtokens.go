package wiring

import (
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	deniedWindow = time.Minute
	// deniedBits is the size of a bitmap. The error is below 3 % for 1,000 tokens and below 10 % for 100,000; a bitmap takes 2 KiB.
	deniedBits  = 1 << 14
	deniedWords = deniedBits / 64
)

// deniedTokens estimates the number of distinct tokens denied in the last one to two minutes by linear counting: each token sets one bit
// of a bitmap, and the share of unset bits gives the estimate. add neither locks nor allocates.
type deniedTokens struct {
	seed    maphash.Seed
	windows [2]deniedBitmap // the current and the previous one
	current atomic.Uint32   // index of the current window
}

type deniedBitmap [deniedWords]atomic.Uint64

// newDeniedTokens returns an empty estimator and registers its metric.
func newDeniedTokens(registry prometheus.Registerer) (*deniedTokens, error) {
	t := &deniedTokens{seed: maphash.MakeSeed()}
	return t, registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_rate_limit_denied_tokens",
		Help: "Distinct tokens that were denied in the last one to two minutes, estimated: to within 3 % for 1,000, 10 % for 100,000.",
	}, t.estimate))
}

// add counts a denial of a token.
func (t *deniedTokens) add(tokenID string) {
	at := maphash.String(t.seed, tokenID) % deniedBits
	word, bit := &t.windows[t.current.Load()][at/64], uint64(1)<<(at%64)
	if word.Load()&bit == 0 { // only the first denial of a token in a window writes
		word.Or(bit)
	}
}

// estimate returns the number of distinct tokens in both windows.
func (t *deniedTokens) estimate() float64 {
	unset := deniedBits
	for i := range deniedWords {
		unset -= bits.OnesCount64(t.windows[0][i].Load() | t.windows[1][i].Load())
	}
	return math.Round(deniedBits * math.Log(deniedBits/float64(max(1, unset))))
}

// Run starts a new window every minute until ctx ends, and returns nil.
func (t *deniedTokens) Run(ctx context.Context) error {
	tick := time.NewTicker(deniedWindow)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			next := 1 - t.current.Load()
			for i := range t.windows[next] {
				t.windows[next][i].Store(0)
			}
			t.current.Store(next)
		}
	}
}
