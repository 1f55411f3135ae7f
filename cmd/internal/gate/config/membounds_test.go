package config_test

import (
	"testing"

	"opsgate/cmd/internal/gate/config"
)

func TestBoundsFollowTheMemoryLimit(t *testing.T) {
	for _, test := range []struct {
		limit            int64 // 0 for none
		connections      int
		input, unwritten int64
	}{
		{0, 10_000, 4 << 20, 256 << 20},
		{1, 100, 256 << 10, 0},
		{70 << 20, 100, 256 << 10, 70 << 20 / 8},
		{512 << 20, 2977, 1 << 20, 64 << 20},
		{1 << 40, 10_000, 4 << 20, 1 << 37},
	} {
		l := config.Loaded{Config: config.Default(), MemoryLimit: test.limit}
		if l.MaxConnections() != test.connections || l.MaxInput() != test.input || l.MaxUnwritten() != test.unwritten || l.MaxBodies() != test.unwritten/2 {
			t.Errorf("%d bytes: %d connections, %d bytes of input, %d unwritten, %d of bodies",
				test.limit, l.MaxConnections(), l.MaxInput(), l.MaxUnwritten(), l.MaxBodies())
		}
	}
}
