package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/ratelimit/redisstore/redistest"
)

// halfRolled returns five gateways: the configuration of one differs, one is silent, one reports no status, one counts alone.
func halfRolled() admin.Gateways {
	at := func(ago time.Duration) *time.Time {
		moment := noon.Add(-ago)
		return &moment
	}
	status := func(host, config string) admin.GatewayStatus {
		return admin.GatewayStatus{
			Host: host, AdminListen: "10.0.0.1:9090", Version: "1.2.3", Revision: "22418eb0d417", ConfigVersion: config, ConfigSince: at(time.Hour),
			LimitsVersion: "1111" + config,
			Mode:          "shared", Breakers: []string{}, RPS: 120, Up: 3600, At: noon,
		}
	}
	f := admin.Gateways{State: admin.GatewaysCurrent, ReadAt: at(time.Second), Gateways: []admin.Gateway{
		{ID: "1", Self: true, GatewayStatus: status("gate-1", "aaaa00000000")},
		{ID: "2", HeardAt: at(time.Second), GatewayStatus: status("gate-2", "aaaa00000000")},
		{ID: "3", HeardAt: at(2 * time.Second), GatewayStatus: status("gate-3", "bbbb00000000")},
		{ID: "4", HeardAt: at(42 * time.Second), Silent: true, GatewayStatus: status("gate-4", "aaaa00000000")},
		{ID: "5", HeardAt: at(time.Second), Unknown: true},
	}}
	alone := &f.Gateways[1]
	alone.Mode, alone.ModeSince, alone.Breakers, alone.FailedRPS, alone.LimitedRPS = "local", at(12*time.Second), []string{"fleet"}, 3, 1.5
	alone.Draining, alone.ConfigRefused, alone.Ready = true, true, new(bool)
	f.Gateways[0].Ready = new(true)
	return f
}

// row returns the text of the row of a gateway.
func (s browser) row(id string) string {
	s.T.Helper()
	return strings.Join(strings.Fields(read[string](s, fmt.Sprintf(`document.querySelector("#gateways [data-key='%s']").innerText`, id))), " ")
}

func TestGatewaysAreShown(t *testing.T) {
	t.Parallel()
	source := healthy()
	source.gateways = halfRolled()
	source.dependencies["capacity"] = admin.Dependency{State: "ready", OK: true, Load: &admin.Load{Current: 12, Limit: 1024}}
	source.dependencies["connections"] = admin.Dependency{State: "ready", OK: true, Load: &admin.Load{Current: 80, Limit: 10_000}}
	source.dependencies["revocations"] = admin.Dependency{State: "ready", OK: true}
	c := newAtNoon(newCounters(), source)
	sample(t, c)
	g := serveConsole(t, c)
	s := show(t, g)
	s.Eventually("the gateways are shown", `document.querySelectorAll("#gateways tbody tr").length === 5`)
	for id, want := range map[string]string{
		"1": "gate-1 this gateway · 10.0.0.1:9090 ✓ live ✓ ready 1.2.3 aaaa00000000 ✓ shared closed 120 0 0",
		"2": "gate-2 10.0.0.1:9090 · draining ✓ 1s ago ✕ not ready 1.2.3 aaaa00000000 ✕ refused the file ! local for 12s ✕ fleet 120 3 1.5",
		"3": "gate-3 10.0.0.1:9090 ✓ 2s ago 1.2.3 bbbb00000000 ≠ differs, ≠ limits differ ✓ shared closed 120 0 0",
		"4": "gate-4 10.0.0.1:9090 ✕ silent, last heard 42s ago 1.2.3 aaaa00000000 ✓ shared closed 120 0 0",
		"5": "5 ? reports no status",
	} {
		if got := s.row(id); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := s.Text("gateways-note"); got != "5 gateways share a Redis." {
		t.Errorf("the note is %q", got)
	}
	for _, want := range []string{"capacity\t✓ ready\t\t12 of 1,024", "connections\t✓ ready\t\t80 of 10,000", "revocations\t✓ ready"} {
		if got := s.Text("needs"); !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	s.onEachScreen("gateways", func(int64) { s.CheckAxe("../../../../..", "page") })
	s.CheckJournal(g.admin)
}

func TestGatewaysThatCannotBeReadAreNamed(t *testing.T) {
	t.Parallel()
	for state, want := range map[admin.GatewaysState]string{
		admin.GatewaysMemory: "Limits are counted in memory, so gateways do not know each other: this page shows only this one.",
		admin.GatewaysStale:  "✕ The other gateways cannot be read: connection refused. They are as they were 12s ago.",
	} {
		source, read := healthy(), noon.Add(-12*time.Second)
		source.gateways = halfRolled()
		source.gateways.State, source.gateways.ReadAt = state, &read
		if state == admin.GatewaysStale {
			source.gateways.Error = "the other gateways cannot be read: connection refused"
		}
		s := show(t, serveConsole(t, newAtNoon(newCounters(), source)))
		s.Eventually("the state is shown", fmt.Sprintf(`document.getElementById("gateways-note").innerText === %q`, want))
		if state != admin.GatewaysStale {
			continue
		}
		for id, want := range map[string]string{ // old values are not compared
			"1": "gate-1 this gateway · 10.0.0.1:9090 ✓ live ✓ ready 1.2.3 aaaa00000000 ✓ shared closed 120 0 0",
			"3": "gate-3 10.0.0.1:9090 ? 2s ago 1.2.3 bbbb00000000 ✓ shared closed 120 0 0",
		} {
			if got := s.row(id); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	}
}

// rowOf is an expression of the text of a gateway's row.
func rowOf(g *gateway) string {
	return fmt.Sprintf(`([...document.querySelectorAll("#gateways tbody tr")].find((row) => row.innerText.includes(%q))?.innerText || "")`,
		strings.TrimPrefix(g.admin, "http://"))
}

// Two gateways share a Redis, and one of them is cut from it: the page of each shows that. Their configurations differ.
func TestGatewayWithoutRedisIsShownByBoth(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	link := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop()),
		"redis", testkit.FreeAddress(t), server.Addr())
	testkit.Must(t, link.Start())
	t.Cleanup(link.Stop)
	counting := func(redis string) *gateway {
		return startCounting(t, fmt.Sprintf("store: redis, redis: {addresses: [%q], timeout: 5s}, ", redis), "")
	}
	first, second := counting(server.Addr()), counting(link.Listen)
	has := func(g *gateway, texts ...string) string {
		conditions := []string{"true"}
		for _, text := range texts {
			conditions = append(conditions, fmt.Sprintf("%s.includes(%q)", rowOf(g), text))
		}
		return strings.Join(conditions, " && ")
	}
	s := show(t, second)
	s.Eventually("the first gateway is shown", has(first, "s ago", "✓ shared"))
	s.Do(chromedp.Navigate(first.admin + "/"))
	s.Eventually("this gateway is shown", has(first, "this gateway", "✓ live", "✓ shared", "≠ differs"))
	s.Eventually("the other gateway is shown", has(second, "s ago", "✓ shared", "≠ differs"))
	if got := s.Text("gateways-note"); got != "2 gateways share a Redis." {
		t.Errorf("the note is %q", got)
	}

	link.Stop()
	s.Eventually("the other gateway is silent", has(second, "✕ silent, last heard "), func() { second.servers(t) })
	s.Eventually("this gateway is not affected", has(first, "✓ live", "✓ shared"))
	s.Eventually("a finding has a runbook", `document.querySelector("#verdict a:not([hidden])")?.href.includes("/runbooks/")`)
	s.Do(chromedp.Navigate(second.admin + "/"))
	s.headline("redis: unavailable")
	s.Eventually("the gateway shows that it counts alone", has(second, "this gateway", "✓ live", "! local for "))
	s.Eventually("it shows the age of the others", `document.getElementById("gateways-note").innerText.includes(". They are as they were ")`)
	s.Eventually("it shows the other as last read", has(first, "✓ shared"))
	s.Do(chromedp.EmulateViewport(360, 800))
	if got := read[int64](s, "document.documentElement.scrollWidth"); got > 360 {
		t.Errorf("the page is %d wide", got)
	}
	s.CheckAxe("../../../../..", "page")
	s.KeepPicture("without-redis.png")

	testkit.Must(t, link.Start())
	s.Eventually("both share Redis again", has(second, "✓ live", "✓ shared")+" && "+has(first, "s ago", "✓ shared"))
	if complaints := s.Complaints(); len(complaints) > 0 {
		t.Errorf("the browser logged %q", complaints)
	}
}
