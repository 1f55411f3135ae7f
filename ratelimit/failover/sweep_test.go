package failover_test

import (
	"testing"
	"testing/synctest"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/failover"
)

// A token has usage while its account or a local admission counts, and is not dropped while a call is in flight.
func TestSweepDropsTokensWithoutUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("minute", 100, time.Minute))
		expect := func(after time.Duration, tokens int) {
			t.Helper()
			time.Sleep(after)
			e.store.Sweep()
			if n := e.store.Tokens(); n != tokens {
				t.Fatalf("%d tokens, not %d", n, tokens)
			}
		}
		e.shared.inCall = e.store.Sweep
		e.decide("shared")
		_, err := e.store.Peek(t.Context(), "peeked", e.policy)
		testkit.Must(t, err)
		e.shared.become(unreachable)
		e.decide("unanswered")
		e.shared.become(failing)
		e.decide("own")
		expect(30*time.Second, 3)
		e.decide("own")
		expect(32*time.Second, 1)
		expect(30*time.Second, 0)
	})
}
