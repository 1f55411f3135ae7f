package wiring_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
)

// A client is one connection to the public listener.
type client struct {
	net.Conn
	*bufio.Reader
}

func (r *reloading) connect(t *testing.T) *client {
	t.Helper()
	conn, err := net.Dial("tcp", r.Address().String())
	testkit.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	testkit.Must(t, conn.SetDeadline(time.Now().Add(testkit.MaxWait)))
	return newClient(conn)
}

func newClient(conn net.Conn) *client { return &client{conn, bufio.NewReader(conn)} }

// do sends a request with additional headers, and returns the response. Its body has been read.
func (c *client) do(t *testing.T, more string) *http.Response {
	t.Helper()
	if _, err := fmt.Fprintf(c.Conn, "GET /v1/me HTTP/1.1\r\nHost: h\r\n%s\r\n", more); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(c.Reader, nil)
	testkit.Must(t, err)
	if _, err := io.Copy(io.Discard, got.Body); err != nil {
		t.Fatal(err)
	}
	return got
}
