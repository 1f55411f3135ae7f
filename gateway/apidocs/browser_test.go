package apidocs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/browsertest"
)

const (
	wide, phone = 1280, 390
	light, dark = "light", "dark"
)

// A browser shows the pages of a host.
type browser struct {
	*browsertest.Page

	host *host
}

// startBrowser starts a host and a browser. At the end of the test it checks that the pages loaded
// only from this host and that the browser logged no error.
func startBrowser(t *testing.T) browser {
	t.Helper()
	h := startHost(t)
	b := browser{browsertest.Start(t), h}
	t.Cleanup(func() {
		b.CheckJournal(h.URL)
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.missing) > 0 {
			t.Errorf("missing: %v", h.missing)
		}
	})
	return b
}

// open opens a page in a window of this width and in this color scheme.
func (b browser) open(path string, width int64, scheme string) {
	b.T.Helper()
	b.Media("screen", scheme)
	b.Do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(b.host.URL+path))
}

// read evaluates a JavaScript expression, and waits if it is a promise.
func read[T any](b browser, expression string) T {
	b.T.Helper()
	return browsertest.Read[T](b.Page, expression)
}

// slash presses the key / as a keyboard does. KeyEvent sends the character even if the page has
// handled the key.
func (b browser) slash() {
	b.T.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		params := input.DispatchKeyEventParams{Type: kind, Key: "/", Code: "Slash", WindowsVirtualKeyCode: 191}
		if kind == input.DispatchKeyEventTypeKeyDown {
			params.Text = "/"
		}
		if _, err := chromedp.Call(b, input.DispatchKeyEvent, params); err != nil {
			b.T.Fatal(err)
		}
	}
}

func TestPagesFitTheWindow(t *testing.T) {
	b := startBrowser(t)
	for _, path := range readable() {
		for _, width := range []int64{wide, phone} {
			b.open(path, width, light)
			read[int](b, openForms)
			if got := read[int64](b, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("%s is %d pixels wide in a window of %d", path, got, width)
			}
			if got := read[string](b, `[...document.querySelectorAll("main p, main li, main h1, main h2, main td")].filter((e) =>
				e.checkVisibility() && !e.closest("pre, .scroll") && e.getBoundingClientRect().right > innerWidth).map((e) => e.textContent).join("\n")`); got != "" {
				t.Errorf("%s at %d pixels: cut off: %s", path, width, got)
			}
			if cut := read[int](b, `[...document.querySelectorAll("pre")].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth).length`); cut > 0 {
				t.Errorf("%s at %d pixels: %d blocks of code are wider than their boxes", path, width, cut)
			}
			// A table scrolls only for what must not be broken: names in its first column, and
			// words.
			if wide := read[int](b, `[...document.querySelectorAll("main .scroll")].filter((e) => e.scrollWidth > e.clientWidth + 60).length`); wide > 0 {
				t.Errorf("%s at %d pixels: %d tables are cut off", path, width, wide)
			}
		}
	}
}

// TestPagesAreAccessible runs axe-core on every page, in turn in both widths and both color schemes,
// with the forms closed and open, and on one page of each kind in all of them. The short form checks
// one page of each kind once.
func TestPagesAreAccessible(t *testing.T) {
	testkit.Find(t, "../../tools/npm/node_modules/axe-core")
	b := startBrowser(t)
	kinds := []string{"/docs/", "/docs/guides/pagination/", "/docs/errors/", "/docs/reference/incidents/", "/docs/schemas/"}
	forms, all := 0, len(openapitest.Operations())
	check := func(path string, width int64, scheme string, prepare string) {
		b.open(path, width, scheme)
		forms += read[int](b, prepare)
		b.CheckAxe("../..", fmt.Sprintf("%s at %d pixels, %s", path, width, scheme))
	}
	for i, path := range readable() {
		isKind := slices.Contains(kinds, path)
		for j, look := range []struct {
			width  int64
			scheme string
		}{{wide, light}, {phone, dark}, {wide, dark}, {phone, light}} {
			if j != i%4 && (!isKind || testing.Short()) || testing.Short() && !isKind {
				continue
			}
			check(path, look.width, look.scheme, "0")
			if strings.HasPrefix(path, "/docs/reference/") {
				check(path, look.width, look.scheme, openForms)
			}
		}
	}
	if !testing.Short() && forms < all {
		t.Errorf("%d forms were checked, want each of %d", forms, all)
	}
}

// openForms opens the forms of a page and fills in what appears after a refused request. Its value
// is the number of forms.
const openForms = `[...document.querySelectorAll(".try form")].map((form) => {
	form.parentElement.open = true;
	form.querySelector("[role=status]").className = "bad";
	form.querySelector("[role=status]").textContent = "404 in 1 ms";
	showAnswer(form, new Response(null, { status: 404, headers: { RateLimit: "r=1", "Retry-After": "1" } }),
		'{"error": "no such resource", "code": "not_found", "nextCursor": "x"}');
}).length`

// TestDeepLinksOpenAtTheirPlace goes to every place that the search index, the navigation or a link
// in a page names. The short form does so on a phone only.
func TestDeepLinksOpenAtTheirPlace(t *testing.T) {
	b := startBrowser(t)
	places := map[string][]string{} // fragments by page
	for _, path := range readable() {
		for _, e := range elements(embedded.made()[path].Body) {
			target, fragment, _ := strings.Cut(e.attr["href"], "#")
			if target == "" {
				target = path
			}
			if e.name == "a" && fragment != "" && !slices.Contains(places[target], fragment) {
				places[target] = append(places[target], fragment)
			}
		}
	}
	for _, e := range index(t) {
		if target, fragment, _ := strings.Cut(e.URL, "#"); fragment != "" && !slices.Contains(places[target], fragment) {
			t.Errorf("%s is found, but no page links to it", e.URL)
		}
	}
	total := 0
	for path, fragments := range places {
		for _, width := range []int64{phone, wide} {
			if width == wide && (testing.Short() || !strings.HasPrefix(path, "/docs/reference/")) {
				continue // the header, which may cover a place, is lower than on a phone
			}
			total += len(fragments)
			b.open(path+"#"+fragments[len(fragments)-1], width, light) // the last one by loading the page, the others in the page
			list, _ := json.Marshal(slices.Concat(fragments[len(fragments)-1:], fragments))
			// A page scrolls to its fragment when it is drawn.
			wrong := read[string](b, fmt.Sprintf(`new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))).then(() => %s.filter((id, i) => {
				if (i > 0) location.hash = "#" + id;
				const place = document.getElementById(id), box = place.getBoundingClientRect(), header = document.querySelector(".top").offsetHeight;
				const covered = id !== "content" && box.top < header - 1;
				return covered || box.top > innerHeight || !place.checkVisibility() || (place.matches("a, h2, h3, li") && !place.matches(":target"));
			}).join(" "))`, list))
			if wrong != "" {
				t.Errorf("%s at %d pixels: not on the screen after going there: %s", path, width, wrong)
			}
		}
	}
	if total < 400 {
		t.Errorf("only %d places were visited", total)
	}
}

func TestSearchByKeyboard(t *testing.T) {
	b := startBrowser(t)
	for _, width := range []int64{wide, phone} {
		b.open("/docs/", width, dark)
		b.slash()
		if focus := read[string](b, `document.activeElement.id + document.activeElement.value`); focus != "search" {
			t.Fatalf("%d pixels: after / the focus is on %q", width, focus)
		}
		b.Press("create incident")
		b.Eventually("there are results", `document.querySelectorAll("#results [role=option]").length > 0`)
		if first := read[string](b, `document.querySelector("#results [aria-selected=true] b").textContent`); first != "Create an incident" {
			t.Errorf("the first result is %q", first)
		}
		b.Press(kb.ArrowDown, kb.ArrowUp)
		if at := read[string](b, `document.getElementById("search").getAttribute("aria-activedescendant")`); at != "result-0" {
			t.Errorf("the active result is %q", at)
		}
		b.Press(kb.Enter)
		b.Eventually("the operation is open", `location.pathname + location.hash === "/docs/reference/incidents/#v1CreateIncident" &&
			document.title === "Incidents · Team Operations API" && document.readyState === "complete"`)

		b.slash()
		b.Press("retry-after")
		b.Eventually("there are results", `document.querySelectorAll("#results [role=option]").length > 0`)
		b.Press(kb.Escape)
		if open := read[bool](b, `!document.getElementById("results").hidden || document.getElementById("search").value !== ""`); open {
			t.Error("Escape does not close the results")
		}
		b.Press("no such word anywhere")
		b.Eventually("nothing is found", `document.getElementById("results").textContent === "Nothing found"`)
	}
}

// The search must find what a reader has in front of them: an error code, a field, a header, an
// operation's ID, the name of a guide. A reader's words are not always those of the title.
func TestSearchFindsThePlace(t *testing.T) {
	b := startBrowser(t)
	b.open("/docs/", wide, light)
	for _, c := range []struct {
		query, want string
		within      int
	}{
		{"rate_limited", "/docs/errors/#rate_limited", 1},
		{"pagination", "/docs/guides/pagination/", 1},
		{"v1ListAudit", "/docs/reference/audit-log/#v1ListAudit", 1},
		{"/v1/status-pages", "/docs/reference/status-pages/#v1ListStatusPages", 1},
		{"uptimepercent", "/docs/schemas/#Monitor.uptimePercent", 1},
		{"quick start", "/docs/guides/quick-start/", 1},
		{"retry", "/docs/guides/rate-limits/", 3},
		{"retry", "/docs/errors/#rate_limited", 3},
		{"retrying", "/docs/guides/rate-limits/", 3},
		{"429", "/docs/guides/rate-limits/", 3},
		{"429", "/docs/errors/#rate_limited", 3},
		{"close incident", "/docs/reference/incidents/#v1AddIncidentUpdate", 4},
		{"how to resolve an incident", "/docs/reference/incidents/#v1AddIncidentUpdate", 4},
		{"resolving incidents", "/docs/reference/incidents/#v1AddIncidentUpdate", 4},
		{"sdk", "/docs/guides/generated-clients/", 1},
		{"client", "/docs/guides/generated-clients/", 3},
		{"ETag", "/docs/reference/token/#v1Me.response-etag", 3},
		{"api key", "/docs/guides/authentication/", 1},
		{"mcp", "/docs/guides/agents/", 1},
		{"webhook", "/docs/guides/webhooks/", 1},
		{"changelog", "/docs/guides/changelog/", 1},
		{"server", "/docs/reference/servers/", 3},
		{"Idempotent-Replayed", "/docs/reference/incidents/#v1CreateIncident.response-idempotent-replayed", 1},
	} {
		got := read[[]string](b, fmt.Sprintf(`fetch("/docs/search.json").then((r) => r.json()).then((entries) => find(entries, %q).map((e) => e.u))`, c.query))
		if at := slices.Index(got, c.want); at < 0 || at >= c.within {
			t.Errorf("%q: %s is not among the first %d of %q", c.query, c.want, c.within, got)
		}
	}
	title := read[string](b, `fetch("/docs/search.json").then((r) => r.json()).then((entries) => find(entries, "what can go wrong")[0].t)`)
	if !strings.HasPrefix(title, "What can go wrong: ") {
		t.Errorf("a section that many guides have is shown as %q", title)
	}
}

func TestPageIsUsedByKeyboard(t *testing.T) {
	b := startBrowser(t)
	b.open("/docs/reference/incidents/", wide, light)
	b.Press(kb.Tab)
	if at := read[string](b, `document.activeElement.textContent`); at != "Skip to content" {
		t.Errorf("the first stop is %q", at)
	}
	b.Press(kb.Enter)
	if at := read[string](b, `document.activeElement.id`); at != "content" {
		t.Errorf("after the skip link the focus is on %q", at)
	}

	// The sample in another language, by its radio buttons; every operation then has that language,
	// and the next page too.
	b.Do(chromedp.Focus(chromedp.CSS("#v1CreateIncident-curl")))
	b.Press(kb.ArrowRight)
	shown := `[...document.querySelectorAll(".tabs")].map((tabs) => [...tabs.querySelectorAll(".code")].findIndex((code) => code.checkVisibility())).join()`
	if got := read[string](b, shown); got != "1,1,1,1" {
		t.Errorf("after the arrow key the samples shown are %s", got)
	}
	b.open("/docs/reference/token/", wide, light)
	if got := read[string](b, shown); got != "1" {
		t.Errorf("on the next page the sample shown is %s", got)
	}

	// The navigation has every page; a link in it is followed by Enter.
	b.Do(chromedp.Focus(chromedp.CSS(`.side a[href="/docs/errors/"]`)))
	b.Press(kb.Enter)
	b.Eventually("the page is open", `location.pathname === "/docs/errors/" && document.querySelector(".side [aria-current=page]")?.textContent === "Errors"`)
	if hidden := read[int](b, `[...document.querySelectorAll(".side a")].filter((a) => !a.checkVisibility()).length`); hidden > 0 {
		t.Errorf("%d links of the navigation are not visible", hidden)
	}
}

func TestMenuOnAPhone(t *testing.T) {
	b := startBrowser(t)
	b.open("/docs/", phone, light)
	visible := `document.getElementById("nav").checkVisibility()`
	if read[bool](b, visible) {
		t.Fatal("the navigation covers the page")
	}
	b.Do(chromedp.Focus(chromedp.CSS(".menu")))
	b.Press(kb.Enter)
	b.Eventually("the menu is open", visible)
	b.Press(kb.Escape)
	b.Eventually("the menu is closed", "!"+visible)
	b.Press(kb.Enter, kb.Tab, kb.Tab, kb.Enter)
	b.Eventually("the first guide is open", `location.pathname === "/docs/guides/quick-start/"`)

	// A link to another place in the same page must uncover it.
	b.open("/docs/reference/token/", phone, light)
	b.Do(chromedp.Click(chromedp.CSS(".menu")), chromedp.Click(chromedp.CSS(`.side a[href$="#v1Me"]`)))
	b.Eventually("the menu is closed", "!"+visible)
}

func TestThemeAndCopy(t *testing.T) {
	b := startBrowser(t)
	b.open("/docs/", wide, light)
	background := `getComputedStyle(document.body).backgroundColor`
	before := read[string](b, background)
	b.Do(chromedp.Click(chromedp.CSS("#theme")))
	after := read[string](b, background)
	if before != "rgb(255, 255, 255)" || after == before {
		t.Errorf("the background is %s, and after the button %s", before, after)
	}
	b.open("/docs/errors/", wide, light)
	if got := read[string](b, background); got != after {
		t.Errorf("on the next page the background is %s", got)
	}
	b.Do(chromedp.Click(chromedp.CSS("#theme")))
	if got := read[string](b, background); got != before {
		t.Errorf("after the second press the background is %s", got)
	}

	b.open("/docs/reference/token/", wide, light)
	b.Do(chromedp.Evaluate[chromedp.Void](`navigator.clipboard.writeText = (text) => { copied = text; return Promise.resolve(); }`))
	b.Do(chromedp.Click(chromedp.CSS(".copy")))
	b.Eventually("the button confirms it", `[...document.querySelectorAll(".copy")].some((button) => button.textContent === "Copied")`)
	if copied := read[string](b, `copied`); !strings.HasPrefix(copied, "curl ") || !strings.Contains(copied, b.host.URL+"/v1/me") {
		t.Errorf("copied %q", copied)
	}
}

func TestScriptNeedsNoStorage(t *testing.T) {
	b := startBrowser(t)
	blocked := `Object.defineProperty(window, "localStorage", { get() { throw new DOMException("blocked", "SecurityError"); } })`
	if _, err := chromedp.Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: blocked}); err != nil {
		t.Fatal(err)
	}
	b.open("/docs/reference/token/", wide, light)
	b.Eventually("the script has run", `document.getElementById("theme").checkVisibility()`)
	b.Do(chromedp.Click(chromedp.CSS("#theme")), chromedp.Click(chromedp.CSS(`label[for="v1Me-go"]`)))
	if got := read[string](b, `document.documentElement.dataset.theme + " " + document.querySelectorAll(".copy").length`); got != "dark 6" {
		t.Errorf("theme and buttons to copy: %s, want dark 6", got)
	}
}

func TestPagesNeedNoScript(t *testing.T) {
	b := startBrowser(t)
	if _, err := chromedp.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.open("/docs/reference/servers/", phone, light)
	if got := read[string](b, `[...document.querySelectorAll("button, input")].filter((e) => e.checkVisibility() && e.type !== "radio").map((e) =>
		e.textContent).join()`); got != "Menu" {
		t.Errorf("controls without a script: %q", got)
	}
	b.Do(chromedp.Click(chromedp.CSS(`label[for="v1ListServers-go"]`)))
	if got := read[string](b, `[...document.querySelectorAll(".tabs")][0].querySelector(".code:nth-of-type(4)").checkVisibility() + " " +
		[...document.querySelectorAll(".tabs")][0].querySelector(".code").checkVisibility()`); got != "true false" {
		t.Errorf("after the choice of Go, Go and curl are shown: %s", got)
	}
	b.Do(chromedp.Click(chromedp.CSS(".menu")), chromedp.Click(chromedp.CSS(`.side a[href="/docs/schemas/"]`)))
	b.Eventually("the link of the menu is open", `location.pathname === "/docs/schemas/"`)
}

func TestPrint(t *testing.T) {
	b := startBrowser(t)
	for _, path := range []string{"/docs/guides/pagination/", "/docs/reference/incidents/"} {
		b.open(path, wide, dark)
		b.Media("print", dark)
		if got := read[string](b, `[".top", ".side", ".around", ".copy"].filter((s) => document.querySelector(s)?.checkVisibility()).join()`); got != "" {
			t.Errorf("%s prints %s", path, got)
		}
		if got := read[string](b, `getComputedStyle(document.querySelector("h1")).color`); got != "rgb(11, 18, 32)" {
			t.Errorf("%s prints headings in %s", path, got)
		}
		if cut := read[int](b, `[...document.querySelectorAll("pre")].filter((e) => e.checkVisibility() &&
			(e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight)).length`); cut > 0 {
			t.Errorf("%s prints %d blocks of code incompletely", path, cut)
		}
	}
}

// A page that a link opens replaces the content of the one before, which keeps what the reader has
// entered in memory. To the reader it is the same as loading the page: title, place, focus,
// navigation, and the way back.
func TestLinksKeepThePageLoaded(t *testing.T) {
	b := startBrowser(t)
	for _, width := range []int64{wide, phone} {
		b.open("/docs/", width, light)
		b.Do(chromedp.Evaluate[chromedp.Void](`loaded = "once"`))
		b.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector("main a[href='/docs/errors/']").click()`))
		at := func(path, title, current string) {
			t.Helper()
			b.Eventually(path+" is open", fmt.Sprintf(`location.pathname === %q && document.title === %q &&
				document.querySelector(".side [aria-current=page]")?.textContent === %q`, path, title, current))
			if got := read[string](b, `loaded + " " + document.querySelector("link[rel=alternate]").getAttribute("href") + " " +
				document.querySelectorAll("main").length`); got != "once "+strings.TrimSuffix(path, "/")+".md 1" && path != "/docs/" {
				t.Errorf("%s: %s", path, got)
			}
		}
		at("/docs/errors/", "Errors · Team Operations API", "Errors")
		if got := read[string](b, `document.activeElement.id + " " + scrollY`); got != "content 0" {
			t.Errorf("the focus and the place are %s", got)
		}
		b.Do(chromedp.Evaluate[chromedp.Void](`scrollTo(0, 1500)`))
		b.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".side a[href$='#v1AddIncidentUpdate']").click()`))
		at("/docs/reference/incidents/", "Incidents · Team Operations API", "Incidents")
		b.Eventually("the operation is at the top", `document.getElementById("v1AddIncidentUpdate").matches(":target") &&
			Math.abs(document.getElementById("v1AddIncidentUpdate").getBoundingClientRect().top - 76) < 40`)
		b.Eventually("the navigation shows it", `document.querySelector(".side [aria-current=true]")?.getAttribute("href").endsWith("#v1AddIncidentUpdate")`)
		if got := read[int](b, `document.querySelectorAll(".try:not([hidden])").length + document.querySelectorAll(".tabs > .code > .copy").length`); got != 4+4*5 {
			t.Errorf("the page has %d forms and buttons to copy", got)
		}
		b.Do(chromedp.Evaluate[chromedp.Void](`history.back()`))
		at("/docs/errors/", "Errors · Team Operations API", "Errors")
		b.Eventually("the place is restored", `Math.abs(scrollY - 1500) < 5`)
		b.Do(chromedp.Evaluate[chromedp.Void](`history.back()`))
		at("/docs/", "Team Operations API", "Overview")
		b.Do(chromedp.Evaluate[chromedp.Void](`history.forward()`))
		at("/docs/errors/", "Errors · Team Operations API", "Errors")
	}
}

// What is not a page of the documentation does not replace the content of one.
func TestAnswerThatIsNoPageIsShown(t *testing.T) {
	h := startHost(t)
	b := browser{browsertest.Start(t), h}
	b.open("/docs/", wide, light)
	h.mu.Lock()
	h.broken = "/docs/errors/"
	h.mu.Unlock()
	b.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector("main a[href='/docs/errors/']").click()`))
	b.Eventually("the answer of the proxy is shown", `location.pathname === "/docs/errors/" &&
		document.title === "Bad gateway" && document.querySelector("main") === null`)
}

func TestLinksWorkWithoutTheNavigationAPI(t *testing.T) {
	b := startBrowser(t)
	if _, err := chromedp.Call(b, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: `delete window.navigation`}); err != nil {
		t.Fatal(err)
	}
	b.open("/docs/", wide, light)
	b.Do(chromedp.Evaluate[chromedp.Void](`loaded = "once"`), chromedp.Click(chromedp.CSS(`.side a[href="/docs/errors/"]`)))
	b.Eventually("the page is loaded", `location.pathname === "/docs/errors/" && typeof loaded === "undefined" && document.readyState === "complete"`)
	if got := read[string](b, `typeof navigation`); got != "undefined" {
		t.Errorf("the browser has the API: %s", got)
	}
}

// The form is used by keyboard alone: it opens without moving, each field is reached in order and
// says what it is.
func TestFormIsUsedByKeyboard(t *testing.T) {
	b := startBrowser(t)
	for _, width := range []int64{wide, phone} {
		b.open("/docs/reference/incidents/", width, light)
		b.Do(chromedp.Focus(chromedp.CSS("#v1AddIncidentUpdate-try summary")))
		const top = `Math.round(document.activeElement.getBoundingClientRect().top)`
		before := read[int](b, top)
		b.Press(kb.Enter)
		if after := read[int](b, top); max(after-before, before-after) > 1 || !read[bool](b, `document.getElementById("v1AddIncidentUpdate-try").open`) {
			t.Errorf("%d pixels: Enter does not open the form, or moves it from %d to %d", width, before, after)
		}
		var names []string
		for range 5 {
			b.Press(kb.Tab)
			names = append(names, read[string](b, `(document.activeElement.labels?.[0] ?? document.activeElement).textContent.replace(/\s+/g, " ").trim()`))
		}
		if got := strings.Join(names, ", "); got != "API token, id UUID required, Idempotency-Key string, Request body JSON, Send" {
			t.Errorf("the stops are %s", got)
		}
		b.Press(kb.Enter)
		if got := read[string](b, `document.activeElement.dataset.name + " " + document.activeElement.validity.valueMissing`); got != "id true" {
			t.Errorf("%d pixels: Send without an id leads to %s", width, got)
		}
	}
}
