package inbox_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/dev/inbox"
	"opsgate/gateway/openapi/browsertest"
)

// browser shows the page of an inbox.
type browser struct {
	context.Context

	t       *testing.T
	journal *browsertest.Journal
}

func show(t *testing.T, s *system) *browser {
	t.Helper()
	ctx, journal := browsertest.Start(t)
	b := &browser{ctx, t, journal}
	b.do(chromedp.Navigate(s.URL() + "/"))
	b.eventually(`document.getElementById("link-text").innerText === "live"`)
	return b
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.t.Fatalf("using the page: %v", err)
	}
}

// read evaluates a JavaScript expression.
func read[T any](b *browser, expression string) T {
	b.t.Helper()
	return browsertest.Read(b, b.t, chromedp.Evaluate[T](expression))
}

// text returns the visible text of an element.
func (b *browser) text(id string) string {
	b.t.Helper()
	return read[string](b, fmt.Sprintf("document.getElementById(%q).innerText", id))
}

// eventually waits until an expression is true.
func (b *browser) eventually(expression string) {
	b.t.Helper()
	testkit.Eventually(b.t, expression, func() bool { return read[bool](b, expression) })
}

// look sets the width of the window and the color scheme.
func (b *browser) look(width int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 800))
	_, err := chromedp.Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	testkit.Must(b.t, err)
}

// keepPicture saves a picture of the page if the test runs with -artifacts.
func (b *browser) keepPicture(name string) {
	b.t.Helper()
	picture := browsertest.Read(b, b.t, chromedp.FullScreenshot(100))
	testkit.Must(b.t, os.WriteFile(filepath.Join(b.t.ArtifactDir(), name), picture, 0o600))
}

// checkJournal checks that the page sent requests only to its inbox, and that the browser logged no errors.
func (b *browser) checkJournal(s *system) {
	b.t.Helper()
	for _, u := range b.journal.URLs() {
		if "http://"+u.Host != s.URL() {
			b.t.Errorf("a request went to %s", u)
		}
	}
	if complaints := b.journal.Complaints(); len(complaints) > 0 || len(b.journal.URLs()) < 2 {
		b.t.Errorf("the browser logged %q", complaints)
	}
}

// fill puts an email, a verified webhook, a tampered one and a repeat into an inbox.
func (s *system) fill() {
	s.t.Helper()
	s.mustMail(ana, exampleMail(s.URL(), "01"))
	tampered := signed(s.t, partner, "02", payload, secrets()[0])
	tampered.Header.Set("Webhook-Timestamp", fmt.Sprint(time.Now().Unix()-1))
	for _, request := range []*http.Request{
		signed(s.t, partner, "01", payload, secrets()[0]), tampered,
		signed(s.t, "http://hooks.partner.example/fails-twice", "03", payload, secrets()[0]),
		signed(s.t, "http://hooks.partner.example/fails-twice", "03", payload, secrets()[0]),
	} {
		do(s.t, &s.receiver, request)
	}
}

// row returns an expression for the visible text of the n-th row of the list.
func row(n int) string { return fmt.Sprintf(`document.querySelectorAll("#list li")[%d].innerText`, n) }

func TestPageShowsMessagesLive(t *testing.T) {
	s := start(t, inbox.Options{})
	b := show(t, s)
	if got := b.text("empty"); !strings.Contains(got, `curl -d '{"title": "<Slow>"}' http://127.0.0.1:8080/v1/incidents`) {
		t.Errorf("the empty page: %s", got)
	}
	s.fill()
	b.eventually(`document.querySelectorAll("#list li").length === 5`)
	for n, want := range [][]string{
		{"Webhook", "Harbour", "incident.created: Slow search", "repeat: arrival 2 of this id", "answered 500", "this receiver fails twice, then accepts"},
		{"answered 500"}, {"✕ signature not verified"}, {partner, "✓ signature verified"}, {"Email", "Harbour", "Slow search – investigating", ana},
	} {
		for _, text := range want {
			if got := read[string](b, row(n)); !strings.Contains(got, text) {
				t.Errorf("row %d lacks %q: %s", n, text, got)
			}
		}
	}
	if strings.Contains(read[string](b, row(1)), "repeat") || b.text("count") != "(5)" || read[bool](b, `!document.getElementById("empty").hidden`) {
		t.Errorf("the page: %s", read[string](b, "document.body.innerText"))
	}
	b.do(chromedp.Click(chromedp.CSS("#clear")))
	b.eventually(`!document.getElementById("empty").hidden && document.querySelectorAll("#list li").length === 0`)
	s.mustMail(ana, exampleMail(s.URL(), "04"))
	b.eventually(`document.querySelectorAll("#list li").length === 1`)
	if got := b.text("announce"); got != "New: Slow search – investigating to "+ana {
		t.Errorf("announced: %q", got)
	}
	b.checkJournal(s)
}

func TestPageShowsOneMessage(t *testing.T) {
	s := start(t, inbox.Options{})
	s.fill()
	b := show(t, s)
	open := func(number int, want string) {
		b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf(`#list li[data-number="%d"] a`, number))))
		b.eventually(fmt.Sprintf(`document.getElementById("shown").innerText.includes(%q)`, want))
	}
	open(2, "signature verified with secret 1 of 2")
	if got := b.text("shown"); !strings.Contains(got, `"title": "Slow search"`) || !strings.Contains(got, "Message id\n01") || !strings.Contains(got, "Answer\n204") {
		t.Errorf("the webhook: %s", got)
	}
	open(3, "not verified: no matching signature found")
	open(1, "Search is slow – we are looking into it.")
	for tab, want := range map[string]string{"headers": "X-Long\nfirst second", "raw": "PHA+U2VhcmNoIGlzIDxiPnNsb3c8L2I+LjwvcD48"} {
		b.do(chromedp.Click(chromedp.CSS("#tab-" + tab)))
		if got := b.text("panel"); !strings.Contains(got, want) {
			t.Errorf("the tab %s: %s", tab, got)
		}
	}
	b.do(chromedp.Click(chromedp.CSS("#unsubscribe")))
	if got := <-s.unsubs; got != "POST /subscriptions/abc/unsubscribe List-Unsubscribe=One-Click" {
		t.Errorf("the one-click link got %q", got)
	}
	b.eventually(`document.getElementById("unsubscribed").innerText === "Unsubscribed."`)
	b.checkJournal(s)
}

// The HTML part of the email has a script, and an image on the inbox, which would count the request.
func TestHTMLOfEmailsIsIsolated(t *testing.T) {
	s := start(t, inbox.Options{})
	s.fill()
	b := show(t, s)
	b.do(chromedp.Click(chromedp.CSS(`#list li[data-number="1"] a`)))
	b.eventually(`!document.getElementById("shown").hidden`)
	read[bool](b, `document.getElementById("html").addEventListener("load", () => { window.loaded = true; }) === undefined`)
	b.do(chromedp.Click(chromedp.CSS("#tab-html")))
	b.eventually("window.loaded === true") // with its images
	b.keepPicture("html.png")
	if read[bool](b, "window.hacked !== undefined") {
		t.Error("the script of the email ran in the page")
	}
	select {
	case request := <-s.unsubs:
		t.Errorf("the email caused the request %s", request)
	default:
	}
}

func TestPageIsUsedByKeyboardOnAPhone(t *testing.T) {
	s := start(t, inbox.Options{})
	s.fill()
	b := show(t, s)
	b.look(390, "light")
	press := func(keys ...string) {
		for _, key := range keys {
			b.do(chromedp.KeyEvent(key))
		}
	}
	press(kb.Tab, kb.Enter, kb.ArrowDown, kb.ArrowDown, kb.ArrowUp, kb.End)
	if got := read[string](b, "document.activeElement.innerText"); !strings.Contains(got, ana) {
		t.Fatalf("the focus is on %s", got)
	}
	press(kb.Enter)
	b.eventually(`document.activeElement.id === "detail-title" && !document.getElementById("shown").hidden`)
	if read[bool](b, `document.getElementById("messages").checkVisibility()`) {
		t.Error("the list is visible beside the message")
	}
	press(kb.Tab, kb.Tab, kb.ArrowLeft)
	if got := read[string](b, "document.activeElement.id"); got != "tab-raw" || !strings.Contains(b.text("panel"), "Subject: =?UTF-8?q?") {
		t.Errorf("the focus is on %s: %s", got, b.text("panel"))
	}
	b.do(chromedp.Click(chromedp.CSS("#back a")))
	b.eventually(`document.getElementById("messages").checkVisibility() && document.activeElement.closest("#list") !== null`)
	b.checkJournal(s)
}

func TestPageIsAccessible(t *testing.T) {
	axe, err := os.ReadFile("../../../../tools/npm/node_modules/axe-core/axe.min.js")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("axe-core is not installed; npm ci in tools/npm installs it: %v", err)
	}
	s := start(t, inbox.Options{})
	b := show(t, s)
	browsertest.Read(b, t, chromedp.EvaluateAsDevTools[any](string(axe)+";0"))
	check := func(name string) {
		for _, width := range []int64{1280, 768, 390} {
			for _, scheme := range []string{"light", "dark"} {
				b.look(width, scheme)
				violations := browsertest.Read(b, t, chromedp.EvaluateAsDevTools[[]string](
					`axe.run().then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html + ": " + n.failureSummary)))`,
					func(e *runtime.EvaluateParams) { e.AwaitPromise = new(true) }))
				if len(violations) > 0 {
					t.Errorf("%s at %d pixels, %s:\n%s", name, width, scheme, strings.Join(violations, "\n"))
				}
				if got := read[int64](b, "document.documentElement.scrollWidth"); got > width {
					t.Errorf("%s is %d pixels wide in a window of %d", name, got, width)
				}
				b.keepPicture(fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
			}
		}
	}
	check("empty")
	s.fill()
	b.eventually(`document.querySelectorAll("#list li").length === 5`)
	check("list")
	b.do(chromedp.Evaluate[chromedp.Void](`location.hash = "2"`))
	b.eventually(`document.getElementById("shown").innerText.includes("verified")`)
	check("message")
}
