package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin/console"
)

// sample takes one sample of the metrics.
func sample(t *testing.T, c *console.Console) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel() // a canceled Run still takes its first sample
	testkit.Must(t, c.Run(ended))
}

// serveConsole serves a console without a gateway.
func serveConsole(t *testing.T, c *console.Console) *gateway {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.Page)
	mux.HandleFunc("GET /admin/state", c.State)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &gateway{admin: server.URL}
}

// heights returns the heights of the bars of a class in the traffic chart, the latest last, as parts of the chart's height.
const heights = `(c) => [...(document.querySelector("#plot path." + c)?.getAttribute("d") || "").matchAll(/v([\d.]+)/g)].map((m) => m[1] / 110)`

func TestOldFloodDoesNotHideOutage(t *testing.T) {
	t.Parallel()
	metrics := newCounters()
	c := newAtNoon(metrics, healthy())
	sample(t, c)
	points := func(n int, counts map[string]int) {
		for range n {
			for status, n := range counts {
				metrics.requests.WithLabelValues("v1ListServers", status, "some").Add(float64(n))
			}
			sample(t, c)
		}
	}
	points(30, map[string]int{"200": 1000})
	points(9, map[string]int{"200": 1_000_000, "429": 500_000})
	points(30, map[string]int{"200": 1000})
	points(1, map[string]int{"200": 600, "503": 400})
	points(5, map[string]int{"200": 500, "503": 500})
	g := serveConsole(t, c)
	s := show(t, g)
	s.Eventually("there is a plot", `document.querySelector("#plot path") !== null`)
	failed := read[[]float64](s, "("+heights+")('failed')")
	if len(failed) != 6 || failed[5] < .15 || failed[0] >= failed[5] {
		t.Errorf("the failed bars are %v of the height", failed)
	}
	answered := read[[]float64](s, "("+heights+")('answered')")
	if got := answered[len(answered)-1]; got < .1 || answered[0] < 1.5*got {
		t.Errorf("the answered bars are %v and %v of the height", answered[0], got)
	}
	if got := s.Text("top"); got != "maximum 150,000 per second; bars with a gap are cut at 125 per second above the line, 62.5 per second below it" {
		t.Errorf("the axis is %q", got)
	}
	if up, down := s.Text("cuts-up"), s.Text("cuts-down"); up != "100,000 per second" || down != "50,000 per second" {
		t.Errorf("the cut bars have the numbers %q and %q", up, down)
	}
	if got := read[int](s, `document.querySelector("#plot path.cut").getAttribute("d").split("M").length - 1`); got != 18 {
		t.Errorf("%d bars have a gap", got)
	}
	for _, width := range []int64{1280, 360} {
		s.Do(chromedp.EmulateViewport(width, 800))
		for _, scheme := range []string{"light", "dark"} {
			s.Media("", scheme)
			s.KeepPicture(strings.Join([]string{"flood", scheme, map[int64]string{1280: "wide", 360: "narrow"}[width]}, "-") + ".png")
		}
		if got := read[int64](s, "document.documentElement.scrollWidth"); got > width {
			t.Errorf("the page is %d wide on a screen of %d", got, width)
		}
	}
	s.CheckJournal(g.admin)
}

// Without failures, traffic that stops is still seen as a step down, and ordinary peaks are not cut.
func TestOrdinaryTrafficIsNotCut(t *testing.T) {
	t.Parallel()
	metrics := newCounters()
	c := newConsole(metrics, healthy())
	sample(t, c)
	for i := range 60 {
		n := 900
		if i >= 35 {
			n = 1
		}
		metrics.requests.WithLabelValues("v1ListServers", "200", "some").Add(float64(n + i%10*100))
		sample(t, c)
	}
	s := show(t, serveConsole(t, c))
	s.Eventually("there is a plot", `document.querySelector("#plot path") !== null`)
	if got := s.Text("top"); got != "maximum 180 per second" || s.Text("cuts-up")+s.Text("cuts-down") != "" {
		t.Errorf("the axis is %q", got)
	}
}
