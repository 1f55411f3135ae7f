package chaos

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
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
	skipIfShort(t)
	parallel(t)
	live := either(100, 20)
	b := startBackend(t)
	valid := createTokens(t, b.data, live)
	identity := startRelay(t, b.address, either(5*time.Millisecond, 20*time.Millisecond))
	behind := everyService(b.address)
	behind.identity = identity.address
	g := startGateway(t, behind, unlimited+fmt.Sprintf("authn: {lookup_timeout: %v}\n", either(2*time.Second, 9*time.Second)))

	begun := time.Now()
	stop := load{gateways: []*gateway{g}, paths: []string{"/v1/me"}, token: unknownTokens(t), rate: either(14_000.0, 1000.0), clients: either(150, 50)}.start(t)
	sleep(t, time.Second)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(clientAddress)}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}, Timeout: maxWait}
	t.Cleanup(client.CloseIdleConnections)
	var slowest time.Duration
	byStatus := map[int]int{}
	for _, token := range valid {
		asked := time.Now()
		status := me(t.Context(), client, g.url, token.Text).status
		slowest = max(slowest, time.Since(asked))
		byStatus[status]++
	}
	sent := len(stop())
	report(t, "unknown tokens per second", int(float64(sent)/time.Since(begun).Seconds()), either("14000", "not checked"))
	atMost(t, fmt.Sprintf("of the first requests of %d valid tokens from another network, answered 503", live), byStatus[503], live/100)
	if byStatus[503]+byStatus[200] != live {
		t.Errorf("first requests were answered %v", byStatus)
	}
	report(t, "slowest first request of a valid token", tenths(slowest), "")
}

// Row 29: clients without a valid token and connections without TLS cannot fill the log.
func TestAttackLogFlood(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	public := newPublicTLS(t)
	duration := either(10*time.Second, 2*time.Second)
	g := startGateway(t, everyService(shared.address), unlimited+public.config())
	address := g.socket()

	refused := load{
		gateways: []*gateway{g}, paths: []string{"/v1/me", "/elsewhere"}, client: newClient(t, public.roots()), token: unknownTokens(t),
		rate: either(10_000.0, 1000.0), clients: mostClients,
	}
	stop := refused.start(t)
	begun := time.Now()
	var junk sync.WaitGroup
	for range 200 {
		junk.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			write("this is not a TLS handshake\r\n\r\n")(conn)
			_, _ = conn.Read(make([]byte, 1)) // until the gateway closes it
		})
	}
	junk.Wait()
	sleep(t, duration)
	answered := stop()
	lasted := time.Since(begun)
	sleep(t, 2*time.Second) // suppressed lines are reported with the next line, or a second later
	g.End(t)

	perSecond, suppressed := map[string]int{}, 0
	for text := range strings.Lines(g.Log.String()) {
		var line struct {
			Time  time.Time
			Msg   string
			Lines int
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		perSecond[line.Time.Format(time.TimeOnly)]++
		if line.Msg == "log lines suppressed" {
			suppressed += line.Lines
		}
	}
	most := 0
	for _, n := range perSecond {
		most = max(most, n)
	}
	report(t, "refused requests a second", int(float64(len(answered))/lasted.Seconds()), either("10000", "not checked"))
	atMost(t, fmt.Sprintf("log lines in a second, with 200 connections without TLS and %d refused requests", len(answered)), most, 100)
	report(t, "suppressed lines, from the log", suppressed, "more than none")
	if suppressed == 0 {
		t.Error("the log does not report suppressed lines")
	}
}
