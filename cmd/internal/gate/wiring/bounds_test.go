package wiring_test

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"opsgate/internal/testkit"
)

// closedWithoutResponse waits until the server closes the connection or sends something, and
// reports whether it has closed it.
func closedWithoutResponse(c *client) bool {
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := c.ReadByte()
	var timeout net.Error
	return err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
}

func TestConnectionsOverTheLimitAreClosed(t *testing.T) {
	r := startHolding(t, "http: {max_connections: 10}\n"+limits(100))
	var held []<-chan response // each connection has a request in flight
	for range 10 {
		held = append(held, r.hold())
	}
	if !closedWithoutResponse(r.connect(t)) {
		t.Error("an eleventh connection is accepted")
	}
	r.mustHaveMetric(t, `opsgate_http_connections_shed_total{cause="refused"}`, "1")
	r.await(t, "overloaded")
	if got := r.readiness(t, "degraded"); got.status != 200 || !strings.Contains(got.body, "more than 10 open connections") {
		t.Errorf("got %+v", got)
	}
	r.mustHaveMetric(t, "opsgate_http_connections_open", "10")
	testkit.Must(t, r.reload(t, "http: {max_connections: 11}\n"+limits(100)))
	if got := r.connect(t).do(t, ""); got != 401 {
		t.Errorf("below the new limit: got %d", got)
	}
	close(r.services.Release)
	for _, h := range held {
		if got := <-h; got.status != 200 {
			t.Errorf("a request in flight: got %+v", got)
		}
	}
}

func TestLongestIdleConnectionIsEvictedAtTheLimit(t *testing.T) {
	r := startHolding(t, "http: {max_connections: 10, read_header_timeout: 1m}\n"+limits(100))
	held := r.hold()
	used, idle := r.connect(t), make([]*client, 8)
	for i := range idle {
		idle[i] = r.connect(t)
		if i%2 == 0 {
			_, _ = io.WriteString(idle[i].Conn, "GET / HTTP/1.1\r\nHo") // an incomplete header
		}
	}
	testkit.Eventually(t, "all are accepted", func() bool { return r.metric(t, "opsgate_http_connections_open") == "10" })
	token := "Authorization: Bearer " + r.token + "\r\n"
	if got := used.do(t, token); got != 200 {
		t.Fatalf("got %d", got)
	}
	for i := 1; i < len(idle); i += 2 {
		idle[i].do(t, "") // an anonymous request does not delay eviction
	}
	for i, longest := range idle {
		if got := r.connect(t).do(t, ""); got != 401 {
			t.Errorf("new connection %d: got %d", i, got)
		}
		if !closedWithoutResponse(longest) {
			t.Errorf("connection %d, the longest idle, is open", i)
		}
	}
	if got := used.do(t, token); got != 200 {
		t.Errorf("the connection with an authenticated request: got %d", got)
	}
	r.mustHaveMetric(t, `opsgate_http_connections_shed_total{cause="evicted"}`, "8")
	close(r.services.Release)
	if got := <-held; got.status != 200 {
		t.Errorf("the request in flight: got %+v", got)
	}
}

func TestAdminListenerLimitsConnections(t *testing.T) {
	r := start(t, "")
	limit, err := strconv.Atoi(r.metric(t, "opsgate_admin_connections_limit"))
	testkit.Must(t, err)
	idle := make([]*client, limit+1) // the connection of the metrics may be closed first
	for i := range idle {
		idle[i] = connect(t, r.AdminAddress())
	}
	if got := r.readiness(t, "ready"); got.status != 200 {
		t.Errorf("above the limit: got %+v", got)
	}
	if !closedWithoutResponse(idle[0]) {
		t.Error("the oldest connection is open")
	}
}

func TestRequestsInFlightAreLimitedAcrossReloads(t *testing.T) {
	r := startHolding(t, "http: {max_in_flight: 2}\n"+limits(100))
	held := []<-chan response{r.hold(), r.hold()}
	if err := r.reload(t, "http: {max_in_flight: 2}\n"+limits(200)); err != nil { // both requests are still in flight
		t.Fatal(err)
	}
	if got := r.get(t, r.Address(), "/v1/me"); got.status != 503 || got.header.Get("Retry-After") != "1" {
		t.Errorf("got %+v", got)
	}
	if got := r.readiness(t, "degraded"); got.status != 200 || !strings.Contains(got.body, "more than 2 requests in flight") {
		t.Errorf("got %+v", got)
	}
	testkit.Must(t, r.reload(t, "http: {max_in_flight: 3}\n"))
	r.mustGet(t, "/v1/me", 200) // below the new limit
	close(r.services.Release)
	for _, h := range held {
		if got := <-h; got.status != 200 {
			t.Errorf("an admitted request: got %+v", got)
		}
	}
	if lines := r.lines("overloaded"); len(lines) != 1 || lines[0]["resource"] != "requests in flight" {
		t.Errorf("got %v", lines)
	}
}
