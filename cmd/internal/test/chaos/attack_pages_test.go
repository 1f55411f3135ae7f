package chaos

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// Row 35: anonymous POSTs with unknown tokens to the pages that emails link to. A team's writes, which need the same database, are not
// delayed.
func TestAttackAnonymousPages(t *testing.T) {
	parallel(t)
	b := start(t, "opsbackend", "serve", "--listen=127.0.0.1:0", "--links-listen=127.0.0.1:0", "--seed=demo", "--data-dir="+t.TempDir())
	serving, err := b.Record("serving")
	must(t, err)
	g := startGateway(t, everyService(fmt.Sprint(serving["address"])), unlimited)
	team := load{
		gateways: []*gateway{g}, paths: []string{"/v1/incidents"}, client: newClient(t, nil), rate: 50, clients: 16,
		body: `{"title": "t", "status": "resolved", "impact": "none", "message": "m"}`,
	}
	team.during(t, time.Second)
	calm := team.during(t, either(5*time.Second, time.Second))
	noneFailed(t, "35", calm)
	for _, attack := range []struct {
		from   string
		source func(connection int) string
	}{
		{"one network", func(int) string { return attackerAddress }},
		{"100 networks", func(i int) string { return fmt.Sprintf("127.0.%d.1", i%100) }},
	} {
		stop := team.start(t)
		rounds, byStatus := either(5, 1), map[int]int{}
		var slowest time.Duration
		for range rounds {
			took := postUnknownLinks(t, fmt.Sprint(serving["links"]), attack.source, byStatus)
			slowest = max(slowest, took)
			sleep(t, max(0, time.Second-took))
		}
		during := stop()
		what := fmt.Sprintf("2,000 POSTs over as many connections from %s, %d times: ", attack.from, rounds)
		report(t, "35", what+"by status (0: closed)", byStatus, "")
		report(t, "35", what+"slowest", tenths(slowest), "")
		noneFailed(t, "35", during)
		p99 := calm.percentile(.99)
		atMostTimes(t, "35", what+fmt.Sprintf("p99 of a team's POSTs (%v without)", tenths(p99)), during.percentile(.99), p99, 3)
	}
}

// postUnknownLinks opens 2,000 connections, sends one POST over each, up to 100 at a time, and adds their number by status, 0 for a closed
// connection. It returns the time until the last response.
func postUnknownLinks(t *testing.T, address string, source func(connection int) string, byStatus map[int]int) time.Duration {
	t.Helper()
	conns := make([]net.Conn, 2000)
	for i := range conns {
		conn, err := dialFrom(source(i), address)
		must(t, err)
		conns[i] = conn
	}
	var mu sync.Mutex
	var sending errgroup.Group
	sending.SetLimit(100) // 2,000 runnable goroutines would delay the requests of the team, which this process sends too
	begun := time.Now()
	for i, conn := range conns {
		sending.Go(func() error {
			defer func() { _ = conn.Close() }()
			action := []string{"confirm", "unsubscribe"}[i%2]
			_ = conn.SetDeadline(time.Now().Add(maxWait))
			_, _ = fmt.Fprintf(conn, "POST /subscriptions/%s/%s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", rand.Text(), action)
			status := 0
			if got, _, err := readResponse(bufio.NewReader(conn)); err == nil {
				status = got.StatusCode
			}
			mu.Lock()
			defer mu.Unlock()
			byStatus[status]++
			return nil
		})
	}
	_ = sending.Wait() // nil
	return time.Since(begun)
}
