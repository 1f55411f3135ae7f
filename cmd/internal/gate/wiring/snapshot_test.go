package wiring

import (
	"testing"

	"opsgate/cmd/internal/gate/config"
)

func TestLookupLimitLeavesCapacityForOtherRequests(t *testing.T) {
	for _, test := range []struct{ lookups, calls, requests, want int }{
		{64, 256, 1024, 64},
		{64, 100, 1024, 50}, // half of the calls
		{64, 256, 512, 32},  // 8 requests wait for each: half of the requests
		{500, 2000, 4096, 256},
		{64, 1, 1024, 1},
		{64, 256, 2, 1},
	} {
		c := config.Default()
		c.Authn.MaxLookups, c.UpstreamCalls.MaxInFlight, c.HTTP.MaxInFlight = test.lookups, test.calls, test.requests
		if got := tokenSettings(c).MaxLookups; got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}
