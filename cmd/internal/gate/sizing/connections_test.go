package sizing_test

import (
	"testing"

	"opsgate/cmd/internal/gate/sizing"
)

func TestConnectionsTakeHalfOfWhatRemainsBesideTheGateway(t *testing.T) {
	c := sizing.Costs{Gateway: 60e6, WorstConnection: 100e3}
	for limit, want := range map[int64]int{
		0:      10_000, // none
		460e6:  2000,
		1e6:    100,
		60e6:   100,
		2060e6: 10_000,
		100e9:  10_000,
	} {
		if got := sizing.MaxConnections(limit, c); got != want {
			t.Errorf("%d: got %d, want %d", limit, got, want)
		}
	}
}

func TestInputFollowsTheMemoryLimit(t *testing.T) {
	for limit, want := range map[int64]int64{0: 4 << 20, 1: 256 << 10, 512 << 20: 1 << 20, 1 << 40: 4 << 20} {
		if got := sizing.MaxInput(limit); got != want {
			t.Errorf("%d: got %d, want %d", limit, got, want)
		}
	}
}

func TestUnwrittenResponsesFollowTheMemoryLimit(t *testing.T) {
	for limit, want := range map[int64]int64{0: 256 << 20, 512 << 20: 64 << 20} {
		if got := sizing.MaxUnwritten(limit); got != want {
			t.Errorf("%d: got %d, want %d", limit, got, want)
		}
	}
}
