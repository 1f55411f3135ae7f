package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin/console"
	"opsgate/gateway/openapi/browsertest"
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

func TestPageShowsBreakerState(t *testing.T) {
	t.Parallel()
	g := start(t, "")
	s := show(t, g)
	s.headline("Everything is well")
	read[bool](s, "window.sameDocument = true")
	if code := g.servers(t); code != 200 {
		t.Fatalf("got %d", code)
	}
	got := s.Text("needs")
	for _, service := range []string{"audit", "fleet", "identity", "incident", "monitoring"} {
		if !strings.Contains(got, service+"\t✓ ready\tclosed\t0") {
			t.Errorf("no %s in %s", service, got)
		}
	}
	g.stopFleet()
	s.Eventually("the breaker is open, and the next probe is announced", `/^fleet: breaker open for .*next probe in \ds$/s.test(
		document.getElementById("headline").innerText) && document.title.startsWith("fleet: breaker ")`, func() { g.servers(t) })
	if got := s.Text("announce"); !strings.HasPrefix(got, "fleet: breaker open") {
		t.Errorf("the announcement is %q", got)
	}
	if got := read[string](s, "document.getElementById('verdict').dataset.verdict"); got != "broken" {
		t.Errorf("the verdict is %s", got)
	}
	if got := s.Text("headline-advice"); got != "Impact\nrequests that need fleet (/v1/servers, /v1/server-groups) get 503 at once if the last call of their team failed; the rest of the API works\n"+
		"Later\nwhen the breakers of more methods open; it ends when the probes of fleet succeed\nDo first\nread the log of fleet, and see what was deployed last" {
		t.Errorf("the advice is %q", got)
	}
	s.KeepPicture("outage.png")
	g.startFleet(t)
	s.Eventually("fleet is healthy", `!document.body.innerText.includes("fleet: ")`, func() { g.servers(t) })
	if !read[bool](s, "window.sameDocument") {
		t.Error("the page was reloaded")
	}
	s.CheckJournal(g.admin)
}

func TestPageShowsTraffic(t *testing.T) {
	t.Parallel()
	g := start(t, "")
	s := show(t, g)
	for range 7 {
		g.servers(t)
	}
	g.get(t, g.api+"/v1/monitors", g.Token)
	g.get(t, g.api+"/v1/servers", "invalid")
	s.Eventually("all requests are shown, which may be in two points", `["v1ListServers 8 1 0 0 ", "v1ListMonitors 1 1 0 0 "].every((row) =>
		document.getElementById("routes").innerText.replace(/\s+/g, " ").includes(row))`)
	label := read[string](s, `document.querySelector("#plot svg").getAttribute("aria-label")`)
	if !strings.Contains(label, "9 requests in the last 15m: 2 were client errors, 0 over the limit, 0 failed") {
		t.Errorf("the plot's label is %q", label)
	}
	if got := s.Text("busy"); !strings.Contains(got, tokenID) || !strings.Contains(got, teamID) {
		t.Errorf("the page: %s", got)
	}
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

const adminToken = "the operators' token"

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
	if n := read[int](s, "document.getAnimations().length"); n != 0 {
		t.Errorf("%d animations", n)
	}
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

func TestMetricsOfThePageExist(t *testing.T) {
	g := start(t, "")
	g.servers(t)
	_, metrics := g.get(t, g.admin+"/metrics", "")
	for _, name := range console.MetricNames() {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("metric %s does not exist", name)
		}
	}
}
