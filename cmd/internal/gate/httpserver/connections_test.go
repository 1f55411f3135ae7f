package httpserver

import (
	"net"
	"os"
	"testing"
	"time"
)

// accepted returns a connection of a listener and the client's side.
func accepted(t *testing.T) (*connection, net.Conn) {
	t.Helper()
	all := newConnectionSet(10, 1<<20)
	listening, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listening.Close() }()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listening.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	conn, err := listening.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return all.add(conn.(*net.TCPConn)), client
}

func TestCutOffConnectionIsClosedUnlessItServesAnAuthenticatedRequest(t *testing.T) {
	for _, test := range []struct{ http2, authenticated, closed bool }{
		{false, false, true}, {false, true, true}, {true, false, true}, {true, true, false},
	} {
		c, client := accepted(t)
		if test.authenticated {
			c.MarkBusy()
		}
		if closed := c.CutOff(test.http2); closed != test.closed {
			t.Errorf("%+v: closed %t", test, closed)
		}
		if err := client.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err := client.Read(make([]byte, 1))
		if open := os.IsTimeout(err); open == test.closed {
			t.Errorf("%+v: the client reads %v", test, err)
		}
		if n := c.owner.count(); n == 0 != test.closed {
			t.Errorf("%+v: %d connections are open", test, n)
		}
	}
}

// A write on an HTTP/2 connection that makes no progress fails soon after a response on it was cut off.
func TestCutOffEndsAStalledWrite(t *testing.T) {
	c, _ := accepted(t)
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
