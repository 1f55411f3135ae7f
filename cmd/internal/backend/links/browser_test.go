package links_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"opsgate/gateway/openapi/browsertest"
)

// The pages work by keyboard, without scripts, on a phone in both color schemes, and load nothing else.
func TestPagesInABrowser(t *testing.T) {
	s := start(t)
	page := browsertest.Start(t)
	if _, err := chromedp.Call(page, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, scheme, want string }{
		{confirm, "light", "Subscription confirmed"},
		{remove, "dark", "Unsubscribed"},
	} {
		page.Media("", c.scheme)
		page.Do(chromedp.EmulateViewport(390, 844), chromedp.Navigate(s.url+c.path))
		page.KeepPicture(c.scheme + ".jpg")
		if wide := browsertest.Read[bool](page, `document.documentElement.scrollWidth > innerWidth`); wide {
			t.Errorf("%s is wider than a phone", c.path)
		}
		if height := browsertest.Read[float64](page, `document.querySelector("button").getBoundingClientRect().height`); height < 44 {
			t.Errorf("%s: the button is %g pixels high", c.path, height)
		}
		page.Press("\t", "\r")
		page.Eventually("the page after the form", fmt.Sprintf(`document.querySelector("h1").textContent === %q`, c.want))
	}
	if complaints := page.Complaints(); len(complaints) > 0 {
		t.Errorf("the browser complains: %q", complaints)
	}
	for _, u := range page.URLs() {
		if u.Path != confirm && u.Path != remove && u.Path != "/favicon.ico" {
			t.Errorf("the browser requested %s", u)
		}
	}
	if s.row() != nil || len(s.entries()) != 2 {
		t.Errorf("the audit log is %v", s.entries())
	}
}
