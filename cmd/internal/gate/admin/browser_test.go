package admin_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"opsgate/internal/testkit"
	"opsgate/internal/testkit/browsertest"
)

// browser is a browser that shows the page of a gateway.
type browser struct{ *browsertest.Page }

func show(t *testing.T, g *gateway) browser {
	t.Helper()
	s := browser{browsertest.Start(t)}
	s.Do(chromedp.Navigate(g.admin + "/"))
	return s
}

// read evaluates a JavaScript expression.
func read[T any](s browser, expression string) T {
	s.T.Helper()
	return browsertest.Read[T](s.Page, expression)
}

func (s browser) headline(prefix string) {
	s.T.Helper()
	s.Eventually("the headline is "+prefix, fmt.Sprintf("document.getElementById('headline').innerText.startsWith(%q)", prefix))
}

// tooWide lists the headings of sections whose contents are wider, so that they cover the next
// section.
const tooWide = `[...document.querySelectorAll("section")].filter((s) => s.scrollWidth > s.clientWidth)
	.map((s) => s.getAttribute("aria-labelledby"))`

// onEachScreen checks the page with axe-core, in light and dark, and that it fits on screens of
// three widths.
func (s browser) onEachScreen(name string) {
	s.T.Helper()
	for _, width := range []int64{1280, 768, 360} {
		s.Do(chromedp.EmulateViewport(width, 800))
		for _, scheme := range []string{"light", "dark"} {
			s.Media("", scheme)
			what := fmt.Sprintf("%s-%d-%s", name, width, scheme)
			s.CheckAxe("../../../..", what)
			s.KeepPicture(what + ".png")
		}
		if got := read[int64](s, "document.documentElement.scrollWidth"); got > width {
			s.T.Errorf("the page is %d wide on a screen of %d", got, width)
		}
		if got := read[[]string](s, tooWide); len(got) > 0 {
			s.T.Errorf("%d pixels: wider than their section: %q", width, got)
		}
	}
}

// An outage is shown while it lasts, with what clients see and what to do, on each screen and to
// screen readers.
func TestPageShowsAnOutage(t *testing.T) {
	t.Parallel()
	g := start(t, "")
	s := show(t, g)
	s.headline("Everything is well")
	read[bool](s, "window.sameDocument = true")
	for range 7 {
		g.servers(t)
	}
	g.get(t, g.api+"/v1/monitors", g.Token)
	g.get(t, g.api+"/v1/servers", "invalid")
	s.Eventually("all requests are shown, which may be in two points", `["v1ListServers 8 1 0 0 ", "v1ListMonitors 1 1 0 0 "].every((row) =>
		document.getElementById("routes").innerText.replace(/\s+/g, " ").includes(row))`)
	if got := read[string](s, `document.querySelector("#plot svg").getAttribute("aria-label")`); !strings.Contains(got, "9 requests in the last 15m: 2 were client errors") {
		t.Errorf("the plot's label is %q", got)
	}
	testkit.Contains(t, s.Text("busy"), tokenID, teamID)
	needs := s.Text("needs")
	for _, service := range []string{"audit", "fleet", "identity", "incident", "monitoring"} {
		testkit.Contains(t, needs, service+"\t✓ ready\tclosed\t0")
	}
	if !regexp.MustCompile(`fleet\t✓ ready\tclosed\t0\t[\d.]+\x{a0}ms`).MatchString(needs) {
		t.Errorf("no latencies of fleet in %s", needs)
	}
	g.stopFleet()
	s.Eventually("the breaker is open, and the next probe is announced", `/^fleet: breaker open for .*next probe in \ds$/s.test(
		document.getElementById("headline").innerText) && document.title.startsWith("fleet: breaker ")`, func() { g.servers(t) })
	testkit.Contains(t, s.Text("announce"), "fleet: breaker open")
	if got := read[string](s, "document.getElementById('verdict').dataset.verdict"); got != "broken" {
		t.Errorf("the verdict is %s", got)
	}
	testkit.Contains(t, s.Text("headline-advice"), "Impact\nrequests that need fleet (/v1/servers, /v1/server-groups) get 503", "\nLater\n", "\nDo first\nread the log of fleet")
	s.Do(chromedp.Click(chromedp.CSS("#busy button")))
	s.Eventually("there is an answer", `document.getElementById("answer").innerText.includes("fleet cannot be reached – decisive")`)
	s.onEachScreen("broken")
	link := read[string](s, `document.querySelector("#headline-runbook a").href`)

	g.startFleet(t)
	s.Eventually("fleet is healthy", `!document.getElementById("verdict").innerText.includes("fleet: ")`, func() { g.servers(t) })
	if !read[bool](s, "window.sameDocument") {
		t.Error("the page was reloaded")
	}
	s.Do(chromedp.Navigate(link)) // the link opens a tab, because the page would lose its token
	if got := read[string](s, `document.querySelector(":target").id`); !strings.HasSuffix(link, "#"+got) {
		t.Errorf("%s leads to %q", link, got)
	}
	s.onEachScreen("runbook")
	s.CheckJournal(g.admin)
}

// Names are from another system: the page shows them as text, and finds tokens by them.
func TestPageShowsAndFindsNames(t *testing.T) {
	t.Parallel()
	g := start(t, "")
	g.Names = [2]string{"<b>Deploy</b> bot", "שלום"}
	s := show(t, g)
	s.headline("Everything is well")
	search := func(text string) {
		t.Helper()
		s.Do(chromedp.SetValue(chromedp.CSS("#token-id"), text), chromedp.Click(chromedp.CSS("#explain [type=submit]")))
	}
	search("deploy")
	s.Eventually("nothing is found", `document.getElementById("answer").innerText === "This gateway has cached no such token"`)
	g.servers(t)
	s.Eventually("the names are among the busiest", `document.getElementById("busy").innerText.includes("<b>Deploy</b> bot\n`+tokenID+`\nשלום `+teamID+`")`)
	search("שלום")
	s.Eventually("the token is found", `document.getElementById("answer").innerText.includes("<b>Deploy</b> bot of team שלום `+teamID+`, with")`)
	if id := read[string](s, `document.getElementById("token-id").value`); id != tokenID {
		t.Errorf("the form has %q", id)
	}
	s.CheckJournal(g.admin)
}

func TestRequestIsExplainedByKeyboard(t *testing.T) {
	t.Parallel()
	g := start(t, "")
	g.servers(t)
	s := show(t, g)
	s.headline("Everything is well")
	reached := []string{}
	for range 20 {
		s.Do(chromedp.KeyEvent(kb.Tab))
		id := read[string](s, "document.activeElement.id || document.activeElement.textContent.trim()")
		reached = append(reached, id)
		if width := read[string](s, "getComputedStyle(document.activeElement).outlineWidth"); width != "3px" {
			t.Errorf("the focus on %s is not visible: %s", id, width)
		}
		if id == "path" {
			break
		}
	}
	want := []string{"Skip to the state", "pause", "1 of 1 ready", "Explain", "method", "path"}
	if !slices.Equal(slices.Compact(reached), want) { // each service has its endpoints
		t.Fatalf("the keyboard reaches %q", reached)
	}
	s.Do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent("/v1/monitors"),
		chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(tokenID), chromedp.KeyEvent(kb.Enter))
	s.Eventually("there is an answer", `document.getElementById("answer").innerText.includes("403")`)
	got := s.Text("answer")
	testkit.Contains(t, got,
		"GET /v1/monitors: 403 forbidden, because of scope", ". token\t✓ passes", ". scope\t✕ refuses", "decisive", "of team "+teamID,
	)
	if text := s.Text("announce"); !strings.HasPrefix(text, "GET /v1/monitors: 403 forbidden") {
		t.Errorf("the announcement is %q", text)
	}
	s.Do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent(g.Token), chromedp.KeyEvent(kb.Enter))
	s.Eventually("the form rejects a token", `document.getElementById("answer").innerText.includes("That is a token")`)
	for _, u := range s.URLs() {
		if strings.Contains(u.String(), g.Token) {
			t.Errorf("the token is in %s", u)
		}
	}
	s.KeepPicture("explained.png")

	close(g.Revoke)
	testkit.Eventually(t, "the token is refused", func() bool { return g.servers(t) == 401 })
	s.Do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent(tokenID), chromedp.KeyEvent(kb.Enter))
	s.Eventually("there is an answer", `document.getElementById("answer").innerText.includes("401")`)
	got = s.Text("answer")
	testkit.Contains(t, got,
		"401 unauthorized, because of token: the token was revoked", ". token\t✕ refuses", "revoked, of team "+teamID,
	)
	s.CheckJournal(g.admin)
}

const adminToken = "the-operators'-token"

func TestAdminTokenStaysInPage(t *testing.T) {
	t.Parallel()
	g := start(t, `admin: {token: "${ADMIN}"}`)
	s := show(t, g)
	s.headline("This gateway requires its admin token")
	enter := func(token string) {
		s.Eventually("the field has the focus", `document.activeElement.id === "token"`)
		s.Do(chromedp.KeyEvent(token), chromedp.KeyEvent(kb.Enter))
	}
	enter("another")
	s.Eventually("it is refused", `document.getElementById("door-error").innerText.includes("not the admin token")`)
	if read[bool](s, `!document.getElementById("all").hidden`) {
		t.Error("the page shows data without the token")
	}
	enter(adminToken)
	s.headline("Everything is well")
	stored := `localStorage.length + sessionStorage.length + document.cookie.length`
	if n := read[int](s, stored); n != 0 || strings.Contains(read[string](s, "document.documentElement.outerHTML + document.getElementById('token').value"), adminToken) {
		t.Error("the page stores the token")
	}
	for _, u := range s.URLs() {
		if u.RawQuery != "" || u.Fragment != "" || strings.Contains(u.String(), "operators") {
			t.Errorf("requested %s", u)
		}
	}
	s.Do(chromedp.Reload())
	s.headline("This gateway requires its admin token")
}

func TestPageReconnects(t *testing.T) {
	t.Parallel()
	g := start(t, "")
	s := show(t, g)
	s.headline("Everything is well")
	g.stop()
	<-g.ended
	s.headline("Connection lost")
	if read[string](s, "document.getElementById('verdict').dataset.verdict") != "unknown" || !strings.Contains(s.Text("as-of"), "The data below is from ") {
		t.Errorf("the page: %s", s.Text("verdict"))
	}
	if s.Text("link-text") != "connection lost" || !read[bool](s, "document.getElementById('all').classList.contains('stale')") {
		t.Errorf("the page: %s", s.Text("link-text"))
	}
	s.KeepPicture("lost.png")
	g.run(t)
	s.headline("Everything is well")
	if read[bool](s, "document.getElementById('all').classList.contains('stale')") {
		t.Error("the data is still marked as stale")
	}
}

func TestPausedPageDoesNotChange(t *testing.T) {
	t.Parallel()
	g := start(t, "")
	s := show(t, g)
	s.headline("Everything is well")
	s.Do(chromedp.Click(chromedp.CSS("#pause")))
	s.Eventually("it is paused", `document.getElementById("link-text").innerText.startsWith("paused at")`)
	g.servers(t)
	paused := s.Text("all")
	s.Do(chromedp.Click(chromedp.CSS("#pause")))
	s.Eventually("it has resumed", `document.getElementById("busy").innerText.includes("`+tokenID+`")`)
	if strings.Contains(paused, tokenID) {
		t.Error("the page changed while it was paused")
	}
}
