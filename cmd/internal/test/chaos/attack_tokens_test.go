package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// In row 27 the attacker and the clients are in different networks.
const (
	attackerAddress = "127.0.0.1"
	clientAddress   = "127.0.7.1"
)

// Row 27: one network floods a gateway with an empty cache with unknown tokens. Valid tokens from another network are still looked up.
func TestAttackUnknownTokens(t *testing.T) {
	parallel(t)
	live := either(100, 20)
	b := startBackend(t)
	texts := make([]string, live)
	for i := range texts {
		texts[i] = createToken(t, b.data).Text
	}
	identity := startRelay(t, b.address, either(5*time.Millisecond, 20*time.Millisecond))
	behind := everyService(b.address)
	behind.identity = identity.address
	g := startGateway(t, behind, unlimited)

	stop := sendUnknownTokens(t, g.socket(), either(150, 50), either(14_000.0, 1000.0))
	sleep(t, time.Second)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(clientAddress)}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}, Timeout: maxWait}
	t.Cleanup(client.CloseIdleConnections)
	var slowest time.Duration
	byStatus := map[int]int{}
	for _, text := range texts {
		begun := time.Now()
		status := me(t.Context(), client, g.url, text).status
		slowest = max(slowest, time.Since(begun))
		byStatus[status]++
	}
	sent, lasted := stop()
	report(t, "27", "unknown tokens per second", int(float64(sent)/lasted.Seconds()), either("14000", "not checked"))
	atMost(t, "27", fmt.Sprintf("of the first requests of %d valid tokens from another network, answered 503", live), byStatus[503], live/100)
	if byStatus[503]+byStatus[200] != live {
		t.Errorf("first requests were answered %v", byStatus)
	}
	report(t, "27", "slowest first request of a valid token", tenths(slowest), "")
}

// sendUnknownTokens sends requests with a new unknown token each, at most rate per second over the connections, until it is stopped.
func sendUnknownTokens(t *testing.T, address string, connections int, rate float64) (stop func() (sent int64, lasted time.Duration)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var count atomic.Int64
	var busy sync.WaitGroup
	begun := time.Now()
	for range connections {
		conn, err := dialFrom(attackerAddress, address)
		must(t, err)
		busy.Go(func() {
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			tick := time.NewTicker(time.Duration(float64(connections) / rate * float64(time.Second)))
			defer tick.Stop()
			from := bufio.NewReader(conn)
			for token := unknownTokens(t); ctx.Err() == nil; <-tick.C {
				if _, err := fmt.Fprintf(conn, "GET /v1/me HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", token()); err != nil {
					return
				}
				got, err := http.ReadResponse(from, nil)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, got.Body)
				_ = got.Body.Close()
				count.Add(1)
			}
		})
	}
	t.Cleanup(cancel)
	return func() (int64, time.Duration) {
		lasted := time.Since(begun)
		cancel()
		busy.Wait()
		return count.Load(), lasted
	}
}
