package httpserver

import (
	"os"
	"testing"
	"time"

	"opsgate/internal/testkit"
)

func TestCutOffConnectionIsClosedUnlessItServesAnAuthenticatedRequest(t *testing.T) {
	for _, test := range []struct{ http2, authenticated, closed bool }{
		{false, false, true}, {false, true, true}, {true, false, true}, {true, true, false},
	} {
		c, client := newConnections(t, 1<<20).connect(t)
		if test.authenticated {
			c.MarkBusy()
		}
		if closed := c.CutOff(test.http2); closed != test.closed {
			t.Errorf("%+v: closed %t", test, closed)
		}
		wait := time.Minute
		if !test.closed {
			wait = 50 * time.Millisecond
		}
		testkit.Must(t, client.SetReadDeadline(time.Now().Add(wait)))
		_, err := client.Read(make([]byte, 1))
		if open := os.IsTimeout(err); open == test.closed {
			t.Errorf("%+v: the client reads %v", test, err)
		}
		if n := c.owner.count(); n == 0 != test.closed {
			t.Errorf("%+v: %d connections are open", test, n)
		}
	}
}

// A write on an HTTP/2 connection that makes no progress fails soon after a response on it was cut
// off.
func TestCutOffEndsAStalledWrite(t *testing.T) {
	c, _ := newConnections(t, 1<<20).connect(t)
	c.MarkBusy()
	stalled := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, 64<<20))
		stalled <- err
	}()
	c.CutOff(true)
	select {
	case err := <-stalled:
		if !os.IsTimeout(err) {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the write lasts 20 s")
	}
}
