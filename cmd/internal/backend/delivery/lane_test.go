package delivery

import "testing"

// The result of an attempt may be stored before the scheduler has received its end.
func TestReceiverIsDiscardedAfterEndAndRelease(t *testing.T) {
	for _, releaseFirst := range []bool{false, true} {
		l := lanesOf(Webhook)[0]
		l.add(claim{subscriber: "a", receiver: "one.example"})
		c, ok := l.next()
		if !ok {
			t.Fatal("not ready")
		}
		if releaseFirst {
			l.release(c)
			l.end(c)
		} else {
			l.end(c)
			l.release(c)
		}
		if l.running != 0 || len(l.receivers) != 0 {
			t.Errorf("%d running, receivers %v", l.running, l.receivers)
		}
	}
}

// A lane claims more of a receiver that has reached its bound only once few are queued.
func TestLaneWantsMoreOnceAReceiverHasFewQueued(t *testing.T) {
	l := lanesOf(Webhook)[0]
	for range receiverClaims {
		if !l.add(claim{receiver: "one.example"}) {
			t.Fatal("not added")
		}
	}
	if l.add(claim{receiver: "one.example"}) {
		t.Error("added beyond the bound")
	}
	l.stale = false
	for n := receiverClaims; n > 0; n-- {
		if got, want := l.stale, n < l.perReceiver; got != want {
			t.Fatalf("stale is %v with %d queued", got, n)
		}
		c, _ := l.next()
		l.end(c)
		l.release(c)
	}
	if len(l.receivers) != 0 {
		t.Error("not discarded")
	}
}
