package console_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"opsgate/cmd/internal/admin/console"
	"opsgate/gateway/openapi/browsertest"
)

// A screenOf is a browser that shows the page of a gateway.
type screenOf struct {
	context.Context

	t       *testing.T
	journal *browsertest.Journal
}

func show(t *testing.T, g *gateway) *screenOf {
	t.Helper()
	ctx, journal := browsertest.Start(t)
	s := &screenOf{ctx, t, journal}
	s.do(chromedp.Navigate(g.admin + "/"))
	return s
}

func (s *screenOf) do(actions ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	if err := chromedp.Do(s, actions...); err != nil {
		s.t.Fatalf("using the page: %v", err)
	}
}

// read returns what an expression of JavaScript is.
func read[T any](s *screenOf, expression string) T {
	s.t.Helper()
	return browsertest.Read(s, s.t, chromedp.Evaluate[T](expression))
}

// text returns what a reader sees in an element.
func (s *screenOf) text(id string) string {
	s.t.Helper()
	return read[string](s, fmt.Sprintf("document.getElementById(%q).innerText", id))
}

// eventually waits until an expression holds, and does something meanwhile.
func (s *screenOf) eventually(what, expression string, meanwhile ...func()) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	until := time.Now().Add(patience)
	for !read[bool](s, expression) {
		if time.Now().After(until) {
			s.t.Fatalf("not so: %s; the page says:\n%s", what, read[string](s, "document.body.innerText"))
		}
		for _, f := range meanwhile {
			f()
		}
		<-tick.C
	}
}

func (s *screenOf) headline(begins string) {
	s.t.Helper()
	s.eventually("the headline is "+begins, fmt.Sprintf("document.getElementById('headline').innerText.startsWith(%q)", begins))
}

func (s *screenOf) emulate(scheme string) {
	s.t.Helper()
	_, err := chromedp.Call(s, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *screenOf) keep(name string) {
	s.t.Helper()
	keep(s.t, name, browsertest.Read(s, s.t, chromedp.FullScreenshot(100)))
}

// quiet holds that the page asked nobody but its gateway for anything, and that the browser has nothing to complain of.
func (s *screenOf) quiet(g *gateway) {
	s.t.Helper()
	own := strings.TrimPrefix(g.admin, "http://")
	if hosts := s.journal.Hosts(); len(hosts) < 2 || slices.ContainsFunc(hosts, func(host string) bool { return host != own }) {
		s.t.Errorf("requests went to %v", hosts)
	}
	if complaints := s.journal.Complaints(); len(complaints) > 0 {
		s.t.Errorf("the browser complains: %q", complaints)
	}
}

func TestThePageFollowsABreaker(t *testing.T) {
	g := start(t, "")
	s := show(t, g)
	s.headline("Everything is well")
	read[bool](s, "window.sameDocument = true")
	if code := g.servers(t); code != 200 {
		t.Fatalf("got %d", code)
	}
	got := s.text("needs")
	for _, service := range []string{"audit", "fleet", "identity", "incident", "monitoring"} {
		if !strings.Contains(got, service+"\t✓ ready\tclosed\t0") {
			t.Errorf("no %s in %s", service, got)
		}
	}
	g.stopFleet()
	s.eventually("the breaker is open", `document.getElementById("headline").innerText.startsWith("fleet: breaker open for ")`, func() { g.servers(t) })
	s.eventually("the next probe is announced", `/next probe in \d s$/.test(document.getElementById("headline").innerText)`)
	s.eventually("the title says so", `document.title.startsWith("fleet: breaker ")`)
	if got := s.text("announce"); !strings.HasPrefix(got, "fleet: breaker open") {
		t.Errorf("a screen reader is told %q", got)
	}
	if got := read[string](s, "document.getElementById('verdict').dataset.verdict"); got != "broken" {
		t.Errorf("the verdict is %s", got)
	}
	s.keep("outage.png")
	g.startFleet(t)
	s.eventually("fleet is well", `!document.body.innerText.includes("fleet: ")`, func() { g.servers(t) })
	if !read[bool](s, "window.sameDocument") {
		t.Error("the page was loaded again")
	}
	s.quiet(g)
}

func TestThePageShowsTraffic(t *testing.T) {
	g := start(t, "")
	s := show(t, g)
	for range 7 {
		g.servers(t)
	}
	g.get(t, g.api+"/v1/monitors", g.token)
	g.get(t, g.api+"/v1/servers", "nobody's")
	s.eventually("there is a first point", `document.querySelector("[data-key=v1ListServers]") !== null`)
	if got := strings.Join(strings.Fields(s.text("routes")), " "); !strings.Contains(got, "v1ListServers 8 1 0 0 ") || !strings.Contains(got, "v1ListMonitors 1 1 0 0 ") {
		t.Errorf("the page says %s", got)
	}
	label := read[string](s, `document.querySelector("#plot svg").getAttribute("aria-label")`)
	if !strings.Contains(label, "9 requests in the last 15 min: 2 were the client’s mistake, 0 over the limit, 0 failed") {
		t.Errorf("the plot is called %q", label)
	}
	if got := s.text("busy"); !strings.Contains(got, tokenID) || !strings.Contains(got, teamID) {
		t.Errorf("the page says %s", got)
	}
	s.quiet(g)
}

func TestARequestIsExplainedByKeyboard(t *testing.T) {
	g := start(t, "")
	g.servers(t)
	s := show(t, g)
	s.headline("Everything is well")
	reached := []string{}
	for range 20 {
		s.do(chromedp.KeyEvent(kb.Tab))
		id := read[string](s, "document.activeElement.id || document.activeElement.textContent.trim()")
		reached = append(reached, id)
		if width := read[string](s, "getComputedStyle(document.activeElement).outlineWidth"); width != "3px" {
			t.Errorf("the focus on %s cannot be seen: %s", id, width)
		}
		if id == "path" {
			break
		}
	}
	want := []string{"Skip to how it stands", "pause", "Minute by minute", "Explain", "method", "path"}
	if !slices.Equal(reached, want) {
		t.Fatalf("the keyboard reaches %q", reached)
	}
	s.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent("/v1/monitors"),
		chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(tokenID), chromedp.KeyEvent(kb.Enter))
	s.eventually("there is an answer", `document.getElementById("answer").innerText.includes("403")`)
	got := s.text("answer")
	for _, want := range []string{
		"GET /v1/monitors: 403 forbidden, because of scope", ". token\t✓ passes", ". scope\t✕ refuses", "this decides", "of team " + teamID,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if said := s.text("announce"); !strings.HasPrefix(said, "GET /v1/monitors: 403 forbidden") {
		t.Errorf("a screen reader is told %q", said)
	}
	s.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent(g.token), chromedp.KeyEvent(kb.Enter))
	s.eventually("a token is refused", `document.getElementById("answer").innerText.includes("That is a token")`)
	for _, u := range s.journal.URLs() {
		if strings.Contains(u.String(), g.token) {
			t.Errorf("the token is in %s", u)
		}
	}
	s.keep("explained.png")
	s.quiet(g)
}

func TestThePageKnowsThatATokenIsRevoked(t *testing.T) {
	g := start(t, "")
	g.servers(t)
	s := show(t, g)
	s.headline("Everything is well")
	close(g.revoke)
	for until := time.Now().Add(patience); g.servers(t) != 401; {
		if time.Now().After(until) {
			t.Fatal("the token is not refused")
		}
	}
	s.do(chromedp.Focus(chromedp.CSS("#path")), chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent("/v1/servers"),
		chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(tokenID), chromedp.KeyEvent(kb.Enter))
	s.eventually("there is an answer", `document.getElementById("answer").innerText.includes("401")`)
	got := s.text("answer")
	for _, want := range []string{
		"GET /v1/servers: 401 unauthorized, because of token: the token was revoked", ". token\t✕ refuses", "revoked, of team " + teamID,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	s.quiet(g)
}

const adminToken = "a token of operators"

func TestTheAdminTokenStaysInThePage(t *testing.T) {
	g := start(t, `admin: {token: "${ADMIN}"}`)
	s := show(t, g)
	s.headline("This gateway asks for its admin token")
	enter := func(token string) {
		s.eventually("the field has the focus", `document.activeElement.id === "token"`)
		s.do(chromedp.KeyEvent(token), chromedp.KeyEvent(kb.Enter))
	}
	enter("another")
	s.eventually("it is refused", `document.getElementById("door-error").innerText.includes("not the admin token")`)
	if read[bool](s, `!document.getElementById("all").hidden`) {
		t.Error("the page shows something nevertheless")
	}
	enter(adminToken)
	s.headline("Everything is well")
	stored := `localStorage.length + sessionStorage.length + document.cookie.length`
	if n := read[int](s, stored); n != 0 || strings.Contains(read[string](s, "document.documentElement.outerHTML + document.getElementById('token').value"), adminToken) {
		t.Error("the page keeps the token where it can be found")
	}
	for _, u := range s.journal.URLs() {
		if u.RawQuery != "" || u.Fragment != "" || strings.Contains(u.String(), "operators") {
			t.Errorf("asked for %s", u)
		}
	}
	s.do(chromedp.Reload())
	s.headline("This gateway asks for its admin token")
}

func TestALostConnectionIsSaidAndMade(t *testing.T) {
	g := start(t, "")
	s := show(t, g)
	s.headline("Everything is well")
	g.stop()
	<-g.ended
	s.headline("Connection lost")
	if read[string](s, "document.getElementById('verdict').dataset.verdict") != "unknown" || !strings.Contains(s.text("as-of"), "when the gateway was draining") {
		t.Errorf("the page says %s", s.text("verdict"))
	}
	if s.text("link-text") != "connection lost" || !read[bool](s, "document.getElementById('all').classList.contains('stale')") {
		t.Errorf("the page says %s", s.text("link-text"))
	}
	s.keep("lost.png")
	g.run(t)
	s.headline("Everything is well")
	if read[bool](s, "document.getElementById('all').classList.contains('stale')") {
		t.Error("what it shows is still called old")
	}
}

func TestReadingInPeace(t *testing.T) {
	g := start(t, "")
	s := show(t, g)
	s.headline("Everything is well")
	s.do(chromedp.Click(chromedp.CSS("#pause")))
	s.eventually("it is paused", `document.getElementById("link-text").innerText.startsWith("paused at")`)
	g.servers(t)
	seen := s.text("all")
	s.do(chromedp.Click(chromedp.CSS("#pause")))
	s.eventually("it goes on", `document.getElementById("busy").innerText.includes("`+tokenID+`")`)
	if strings.Contains(seen, tokenID) {
		t.Error("it changed while it was paused")
	}
}

func TestTheMetricsOfThePageAreThere(t *testing.T) {
	g := start(t, "")
	g.servers(t)
	_, metrics := g.get(t, g.admin+"/metrics", "")
	for _, name := range console.MetricNames() {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("there is no %s", name)
		}
	}
}
