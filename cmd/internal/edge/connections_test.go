package edge_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client is one connection to the public listener.
type client struct {
	net.Conn
	*bufio.Reader
}

func (r *reloading) connect(t *testing.T) *client {
	t.Helper()
	conn, err := net.Dial("tcp", r.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return newClient(conn)
}

func newClient(conn net.Conn) *client { return &client{conn, bufio.NewReader(conn)} }

// ask sends a request on the connection, and returns the answer, read to its end.
func (c *client) ask(t *testing.T, more string) *http.Response {
	t.Helper()
	if _, err := fmt.Fprintf(c.Conn, "GET /v1/me HTTP/1.1\r\nHost: h\r\n%s\r\n", more); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, got.Body); err != nil {
		t.Fatal(err)
	}
	return got
}

// closed tells whether the server has closed the connection, and waits for that.
func (c *client) closed(t *testing.T) bool {
	t.Helper()
	_, err := c.ReadByte()
	return errors.Is(err, io.EOF)
}

func TestBoundsOfConnectionsChangeForNewOnes(t *testing.T) {
	services := startServices(t)
	r := reloadingGateway(t, services, "http: {max_header_bytes: 64KiB}\n")
	large := "X: " + strings.Repeat("x", 16<<10) + "\r\n"
	old := r.connect(t)
	if got := old.ask(t, large); got.StatusCode != 401 || got.Close {
		t.Errorf("before: got %d, closing: %t", got.StatusCode, got.Close)
	}
	if err := r.reload(t, "http: {max_header_bytes: 4KiB, read_header_timeout: 100ms}\n"); err != nil {
		t.Fatal(err)
	}
	young := r.connect(t)
	if got := young.ask(t, large); got.StatusCode != 431 {
		t.Errorf("a new connection: got %d", got.StatusCode)
	}
	slow := r.connect(t)
	if _, err := io.WriteString(slow.Conn, "GET / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	if !slow.closed(t) {
		t.Error("a slow header is awaited as before")
	}
	if got := old.ask(t, ""); got.StatusCode != 401 || !got.Close || !old.closed(t) {
		t.Errorf("an old connection: got %d, closing: %t", got.StatusCode, got.Close)
	}
	r.finish(t)
}

func TestConnectionsUnderAllBoundsEndInOrder(t *testing.T) {
	services := startServices(t)
	services.release = make(chan struct{})
	r := reloadingGateway(t, services, "")
	idle := r.connect(t)
	idle.ask(t, "")
	var held []<-chan response
	for i := range 3 {
		held = append(held, r.hold(t, services))
		if err := r.reload(t, fmt.Sprintf("http: {idle_timeout: %ds}\n", 10+i)); err != nil {
			t.Fatal(err)
		}
	}
	r.stop()
	if !idle.closed(t) {
		t.Error("an idle connection outlives the gateway")
	}
	select {
	case err := <-r.ended:
		t.Fatalf("ended with requests in flight: %v", err)
	default:
	}
	close(services.release)
	for _, h := range held {
		if got := <-h; got.status != 200 {
			t.Errorf("got %+v", got)
		}
	}
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}
