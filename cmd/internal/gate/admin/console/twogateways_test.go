package console_test

import (
	"fmt"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// rowOf is an expression of the text of a gateway's row.
func rowOf(g *gateway) string {
	return fmt.Sprintf(`([...document.querySelectorAll("#gateways tbody tr")].find((row) => row.innerText.includes(%q))?.innerText || "")`,
		strings.TrimPrefix(g.admin, "http://"))
}

// Two gateways share a Redis, and one of them is cut from it: the page of each shows that. Their configurations differ.
func TestGatewayWithoutRedisIsShownByBoth(t *testing.T) {
	server := redistest.Start(t)
	link := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop()),
		"redis", "127.0.0.1:0", server.Addr())
	testkit.Must(t, link.Start())
	t.Cleanup(link.Stop)
	counting := func(redis string) *gateway {
		return startCounting(t, fmt.Sprintf("store: redis, redis: {addresses: [%q]}, ", redis), "")
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
