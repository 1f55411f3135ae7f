package links_test

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"opsgate/backendclient/testkit"
	"opsgate/gateway/openapi/browsertest"
)

// The pages work by keyboard, without scripts, on a phone in both color schemes, and load nothing else.
func TestPagesInABrowser(t *testing.T) {
	s := start(t)
	ctx, journal := browsertest.Start(t)
	if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, scheme, want string }{
		{confirm, "light", "Subscription confirmed"},
		{remove, "dark", "Unsubscribed"},
	} {
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: c.scheme}},
		}); err != nil {
			t.Fatal(err)
		}
		testkit.Must(t, chromedp.Do(ctx, chromedp.EmulateViewport(390, 844), chromedp.Navigate(s.url+c.path)))
		browsertest.KeepPicture(ctx, t, c.scheme+".jpg")
		if wide := browsertest.Read(ctx, t, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`)); wide {
			t.Errorf("%s is wider than a phone", c.path)
		}
		if height := browsertest.Read(ctx, t, chromedp.Evaluate[float64](`document.querySelector("button").getBoundingClientRect().height`)); height < 44 {
			t.Errorf("%s: the button is %g pixels high", c.path, height)
		}
		testkit.Must(t, chromedp.Do(ctx, chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r")))
		waitForHeading(ctx, t, c.want)
	}
	if complaints := journal.Complaints(); len(complaints) > 0 {
		t.Errorf("the browser complains: %q", complaints)
	}
	for _, u := range journal.URLs() {
		if u.Path != confirm && u.Path != remove && u.Path != "/favicon.ico" {
			t.Errorf("the browser requested %s", u)
		}
	}
	if s.row() != nil || len(s.entries()) != 2 {
		t.Errorf("the audit log is %v", s.entries())
	}
}

// waitForHeading waits for the page after a form was sent. The page that is being left cannot be read.
func waitForHeading(ctx context.Context, t *testing.T, want string) {
	t.Helper()
	testkit.Eventually(t, "heading "+want, func() bool {
		got, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("h1").textContent`))
		return got == want
	})
}
