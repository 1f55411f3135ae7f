package inbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"opsgate/cmd/internal/dev/inbox"
	"opsgate/gateway/openapi/browsertest"
)

// browser shows the page of an inbox.
type browser struct{ *browsertest.Page }

func show(t *testing.T, s *system) browser {
	t.Helper()
	b := browser{browsertest.Start(t)}
	b.Do(chromedp.Navigate(s.URL() + "/"))
	b.eventually(`document.getElementById("link-text").innerText === "live"`)
	return b
}

// read evaluates a JavaScript expression.
func read[T any](b browser, expression string) T {
	b.T.Helper()
	return browsertest.Read[T](b.Page, expression)
}

// eventually waits until an expression is true.
func (b browser) eventually(expression string) {
	b.T.Helper()
	b.Eventually(expression, expression)
}

// look sets the width of the window and the color scheme.
func (b browser) look(width int64, scheme string) {
	b.T.Helper()
	b.Do(chromedp.EmulateViewport(width, 800))
	b.Media("", scheme)
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
	if got := b.Text("empty"); !strings.Contains(got, `curl -d '{"title": "<Slow>"}' http://127.0.0.1:8080/v1/incidents`) {
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
	if strings.Contains(read[string](b, row(1)), "repeat") || b.Text("count") != "(5)" || read[bool](b, `!document.getElementById("empty").hidden`) {
		t.Errorf("the page: %s", read[string](b, "document.body.innerText"))
	}
	b.Do(chromedp.Click(chromedp.CSS("#clear")))
	b.eventually(`!document.getElementById("empty").hidden && document.querySelectorAll("#list li").length === 0`)
	s.mustMail(ana, exampleMail(s.URL(), "04"))
	b.eventually(`document.querySelectorAll("#list li").length === 1`)
	if got := b.Text("announce"); got != "New: Slow search – investigating to "+ana {
		t.Errorf("announced: %q", got)
	}
	b.CheckJournal(s.URL())
}

func TestPageShowsOneMessage(t *testing.T) {
	s := start(t, inbox.Options{})
	s.fill()
	b := show(t, s)
	open := func(number int, want string) {
		b.Do(chromedp.Click(chromedp.CSS(fmt.Sprintf(`#list li[data-number="%d"] a`, number))))
		b.eventually(fmt.Sprintf(`document.getElementById("shown").innerText.includes(%q)`, want))
	}
	open(2, "signature verified with secret 1 of 2")
	if got := b.Text("shown"); !strings.Contains(got, `"title": "Slow search"`) || !strings.Contains(got, "Message id\n01") || !strings.Contains(got, "Answer\n204") {
		t.Errorf("the webhook: %s", got)
	}
	open(3, "not verified: no matching signature found")
	open(1, "Search is slow – we are looking into it.")
	for tab, want := range map[string]string{"headers": "X-Long\nfirst second", "raw": "PHA+U2VhcmNoIGlzIDxiPnNsb3c8L2I+LjwvcD48"} {
		b.Do(chromedp.Click(chromedp.CSS("#tab-" + tab)))
		if got := b.Text("panel"); !strings.Contains(got, want) {
			t.Errorf("the tab %s: %s", tab, got)
		}
	}
	b.Do(chromedp.Click(chromedp.CSS("#unsubscribe")))
	if got := <-s.unsubs; got != "POST /subscriptions/abc/unsubscribe List-Unsubscribe=One-Click" {
		t.Errorf("the one-click link got %q", got)
	}
	b.eventually(`document.getElementById("unsubscribed").innerText === "Unsubscribed."`)
	b.CheckJournal(s.URL())
}

// The HTML part of the email has a script, and an image on the inbox, which would count the request.
func TestHTMLOfEmailsIsIsolated(t *testing.T) {
	s := start(t, inbox.Options{})
	s.fill()
	b := show(t, s)
	b.Do(chromedp.Click(chromedp.CSS(`#list li[data-number="1"] a`)))
	b.eventually(`!document.getElementById("shown").hidden`)
	read[bool](b, `document.getElementById("html").addEventListener("load", () => { window.loaded = true; }) === undefined`)
	b.Do(chromedp.Click(chromedp.CSS("#tab-html")))
	b.eventually("window.loaded === true") // with its images
	b.KeepPicture("html.png")
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
	b.Press(kb.Tab, kb.Enter, kb.ArrowDown, kb.ArrowDown, kb.ArrowUp, kb.End)
	if got := read[string](b, "document.activeElement.innerText"); !strings.Contains(got, ana) {
		t.Fatalf("the focus is on %s", got)
	}
	b.Press(kb.Enter)
	b.eventually(`document.activeElement.id === "detail-title" && !document.getElementById("shown").hidden`)
	if read[bool](b, `document.getElementById("messages").checkVisibility()`) {
		t.Error("the list is visible beside the message")
	}
	b.Press(kb.Tab, kb.Tab, kb.ArrowLeft)
	if got := read[string](b, "document.activeElement.id"); got != "tab-raw" || !strings.Contains(b.Text("panel"), "Subject: =?UTF-8?q?") {
		t.Errorf("the focus is on %s: %s", got, b.Text("panel"))
	}
	b.Do(chromedp.Click(chromedp.CSS("#back a")))
	b.eventually(`document.getElementById("messages").checkVisibility() && document.activeElement.closest("#list") !== null`)
	b.CheckJournal(s.URL())
}

func TestPageIsAccessible(t *testing.T) {
	s := start(t, inbox.Options{})
	b := show(t, s)
	check := func(name string) {
		for _, width := range []int64{1280, 768, 390} {
			for _, scheme := range []string{"light", "dark"} {
				b.look(width, scheme)
				b.CheckAxe("../../../..", fmt.Sprintf("%s at %d pixels, %s", name, width, scheme))
				if got := read[int64](b, "document.documentElement.scrollWidth"); got > width {
					t.Errorf("%s is %d pixels wide in a window of %d", name, got, width)
				}
				b.KeepPicture(fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
			}
		}
	}
	check("empty")
	s.fill()
	b.eventually(`document.querySelectorAll("#list li").length === 5`)
	check("list")
	b.Do(chromedp.Evaluate[chromedp.Void](`location.hash = "2"`))
	b.eventually(`document.getElementById("shown").innerText.includes("verified")`)
	check("message")
}
