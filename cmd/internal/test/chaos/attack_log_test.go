package chaos

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

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
	report(t, "29", "refused requests a second", int(float64(len(answered))/lasted.Seconds()), either("10000", "not checked"))
	atMost(t, "29", fmt.Sprintf("log lines in a second, with 200 connections without TLS and %d refused requests", len(answered)), most, 100)
	report(t, "29", "suppressed lines, from the log", suppressed, "more than none")
	if suppressed == 0 {
		t.Error("the log does not report suppressed lines")
	}
}
