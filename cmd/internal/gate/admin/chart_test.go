package admin

import (
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"opsgate/internal/testkit/browsertest"
)

// showChart shows the page of an Admin with metrics.
func showChart(t *testing.T, a *Admin) *browsertest.Page {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	s := browsertest.Start(t)
	s.Do(chromedp.Navigate(server.URL + "/"))
	s.Eventually("there is a plot", `document.querySelector("#plot path") !== null`)
	return s
}

// heights returns the heights of the bars of a class in the traffic chart, the latest last, as
// parts of the chart's height.
const heights = `(c) => [...(document.querySelector("#plot path." + c)?.getAttribute("d") || "").matchAll(/v([\d.]+)/g)].map((m) => m[1] / 110)`

func TestOldFloodDoesNotHideOutage(t *testing.T) {
	t.Parallel()
	a, metrics := sampled(t)
	points := func(n int, counts map[string]int) {
		for range n {
			for status, n := range counts {
				metrics.requests.WithLabelValues("v1ListServers", status, "some").Add(float64(n))
			}
			a.sample()
		}
	}
	points(30, map[string]int{"200": 1000})
	points(9, map[string]int{"200": 1_000_000, "429": 500_000})
	points(30, map[string]int{"200": 1000})
	points(1, map[string]int{"200": 600, "503": 400})
	points(5, map[string]int{"200": 500, "503": 500})
	s := showChart(t, a)
	failed := browsertest.Read[[]float64](s, "("+heights+")('failed')")
	if len(failed) != 6 || failed[5] < .15 || failed[0] >= failed[5] {
		t.Errorf("the failed bars are %v of the height", failed)
	}
	answered := browsertest.Read[[]float64](s, "("+heights+")('answered')")
	if got := answered[len(answered)-1]; got < .1 || answered[0] < 1.5*got {
		t.Errorf("the answered bars are %v and %v of the height", answered[0], got)
	}
	if got := s.Text("top"); got != "maximum 150,000 per second; bars with a gap are cut at 125 per second above the line, 62.5 per second below it" {
		t.Errorf("the axis is %q", got)
	}
	if up, down := s.Text("cuts-up"), s.Text("cuts-down"); up != "100,000 per second" || down != "50,000 per second" {
		t.Errorf("the cut bars have the numbers %q and %q", up, down)
	}
	if got := browsertest.Read[int](s, `document.querySelector("#plot path.cut").getAttribute("d").split("M").length - 1`); got != 18 {
		t.Errorf("%d bars have a gap", got)
	}
}

// Without failures, traffic that stops is still seen as a step down, and ordinary peaks are not
// cut.
func TestOrdinaryTrafficIsNotCut(t *testing.T) {
	t.Parallel()
	a, metrics := sampled(t)
	for i := range 60 {
		n := 900
		if i >= 35 {
			n = 1
		}
		metrics.requests.WithLabelValues("v1ListServers", "200", "some").Add(float64(n + i%10*100))
		a.sample()
	}
	s := showChart(t, a)
	if got := s.Text("top"); got != "maximum 180 per second" || s.Text("cuts-up")+s.Text("cuts-down") != "" {
		t.Errorf("the axis is %q", got)
	}
}
