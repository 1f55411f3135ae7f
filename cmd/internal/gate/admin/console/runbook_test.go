package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"

	"github.com/chromedp/chromedp"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/admin/console"
	"opsgate/cmd/internal/gate/config"
)

// getRunbook returns the response for a page such as "limits.html".
func getRunbook(t *testing.T, name string) *httptest.ResponseRecorder {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/runbooks/"+name, http.NoBody)
	r.SetPathValue("name", name)
	newConsole(newCounters(), healthy()).Runbook(w, r)
	return w
}

func TestRunbookIsServedWithStrictPolicy(t *testing.T) {
	got := getRunbook(t, "limits.html")
	if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `<h2 id="redis-is-unavailable">Redis is unavailable</h2>`) {
		t.Errorf("got %d: %.300s", got.Code, got.Body)
	}
	policy := got.Header().Get("Content-Security-Policy")
	testkit.Contains(t, policy, "default-src 'none'", "style-src 'sha256-", "form-action 'none'", "frame-ancestors 'none'")
	for _, forbidden := range []string{"<script", " style=", "{{", "unsafe"} {
		if strings.Contains(got.Body.String()+policy, forbidden) {
			t.Errorf("there is %q in the page", forbidden)
		}
	}
	for _, name := range []string{"nothing.html", "limits.md", "limits", ".."} {
		if got := getRunbook(t, name); got.Code != http.StatusNotFound {
			t.Errorf("%s: got %d", name, got.Code)
		}
	}
}

// Each finding has a section of a runbook. The source has each problem at once, so that a new kind of finding is checked too.
func TestFindingsHaveRunbooks(t *testing.T) {
	s := healthy()
	s.store = admin.Store{Mode: "local", Breaker: &admin.Breaker{State: "open"}}
	s.config.LastReload = &admin.Reload{Outcome: "refused"}
	s.config.Certificates = []config.Certificate{{Key: "tls.cert_file"}}
	for _, name := range []string{"identity", "fleet", "redis", "revocations", "capacity", "connections"} {
		s.dependencies[name] = admin.Dependency{State: "unavailable"}
	}
	s.dependencies["audit"] = breaker(backendclient.BreakerStatus{State: "open"})
	s.dependencies["monitoring"] = admin.Dependency{WrongEndpoints: &backendclient.WrongEndpoints{}}
	metrics := newCounters()
	c := newConsole(metrics, s)
	sample(t, c)
	metrics.count("v1Me", "500", 1, 0)
	sample(t, c)
	got := stateOf(t, c)
	if len(got.Findings) < 9 {
		t.Errorf("there are only %+v", got.Findings)
	}
	for _, f := range append(got.Findings, console.Finding{Key: "draining", Runbook: "gateways.md#a-gateway-is-draining"},
		console.Finding{Key: "reload", Runbook: "configuration.md#a-certificate-is-refused"}) {
		page, anchor, _ := strings.Cut(f.Runbook, "#")
		html := getRunbook(t, strings.Replace(page, ".md", ".html", 1)).Body.String()
		if anchor == "" || !strings.Contains(html, `<h2 id="`+anchor+`">`) {
			t.Errorf("the finding %s has the runbook %q", f.Key, f.Runbook)
		}
	}
}

func TestFindingLeadsToItsRunbook(t *testing.T) {
	t.Parallel()
	g := start(t, "")
	s := show(t, g)
	g.stopFleet()
	s.headline("fleet: ")
	s.Eventually("the runbook is linked", `document.querySelector("#headline-runbook a").innerText.startsWith("Runbook: a ")`, func() { g.servers(t) })
	link := read[string](s, `document.querySelector("#headline-runbook a").href`)
	s.Do(chromedp.Navigate(link)) // the link opens a tab, because the page would lose its token
	anchor := link[strings.Index(link, "#")+1:]
	if got := read[string](s, `document.querySelector(":target").id`); got != anchor {
		t.Errorf("%s leads to %q", link, got)
	}
	s.Do(chromedp.Click(chromedp.CSS("nav a[href='limits.html']")))
	s.Eventually("another runbook is shown", `document.title.startsWith("Runbook: limits")`)
	s.Do(chromedp.Click(chromedp.CSS("a[href='#redis-is-unavailable']")))
	s.Eventually("its section is shown", `location.hash === "#redis-is-unavailable"`)
	for _, width := range []int64{1280, 360} {
		s.Do(chromedp.EmulateViewport(width, 800))
		if got := read[int64](s, "document.documentElement.scrollWidth"); got > width {
			t.Errorf("the runbook is %d wide on a screen of %d", got, width)
		}
		for _, scheme := range []string{"light", "dark"} {
			s.Media("", scheme)
			if got := read[[]string](s, lowContrast); len(got) > 0 {
				t.Errorf("%d pixels, %s: low contrast: %q", width, scheme, got)
			}
		}
		s.CheckAxe("../../../../..", "page")
		if width == 360 {
			s.KeepPicture("runbook-360-dark.png")
		}
	}
	s.CheckJournal(g.admin)
}
