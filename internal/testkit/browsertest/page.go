package browsertest

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"opsgate/internal/testkit"
)

// A Page is a browser that shows a page. Its methods fail the test on errors.
type Page struct {
	context.Context

	T *testing.T

	mu         sync.Mutex
	urls       []*url.URL
	complaints []string
}

// URLs returns the URL of each request.
func (p *Page) URLs() []*url.URL {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.urls)
}

// Complaints returns errors and warnings of the console, exceptions, and violations of the page's
// policy.
func (p *Page) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.complaints)
}

// Do executes actions.
func (p *Page) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.T.Helper()
	if err := chromedp.Do(p, actions...); err != nil {
		p.T.Fatalf("using the page: %v", err)
	}
}

// Press presses keys, one after the other.
func (p *Page) Press(keys ...string) {
	p.T.Helper()
	for _, key := range keys {
		p.Do(chromedp.KeyEvent(key))
	}
}

// Media sets the medium, "" for the screen, and the color scheme.
func (p *Page) Media(medium, scheme string) {
	p.T.Helper()
	_, err := chromedp.Call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	testkit.Must(p.T, err)
}

// Read evaluates a JavaScript expression, and waits if it is a promise.
func Read[T any](p *Page, expression string) T {
	p.T.Helper()
	value, err := evaluate[T](p, expression)
	if err != nil {
		p.T.Fatalf("reading the page: %v", err)
	}
	return value
}

func evaluate[T any](p *Page, expression string) (T, error) {
	return chromedp.Run(p,
		chromedp.Evaluate[T](expression, func(e *runtime.EvaluateParams) { e.AwaitPromise = new(true) }))
}

// Text returns the visible text of an element.
func (p *Page) Text(id string) string {
	p.T.Helper()
	return Read[string](p, fmt.Sprintf("document.getElementById(%q).innerText", id))
}

// Eventually waits until an expression is true, and calls the functions while it waits. A page that
// is being left cannot evaluate it, so errors count as false.
func (p *Page) Eventually(what, expression string, poll ...func()) {
	p.T.Helper()
	holds := false
	defer func() {
		if !holds {
			text, err := evaluate[string](p, `location.href + "\n" + document.body.innerText.slice(0, 1000)`)
			p.T.Logf("the page: %s, %v; errors: %q", text, err, p.Complaints())
		}
	}()
	testkit.Eventually(p.T, what, func() bool {
		is, err := evaluate[bool](p, expression)
		if holds = err == nil && is; !holds {
			for _, f := range poll {
				f()
			}
		}
		return holds
	})
}

// KeepPicture saves a picture of the whole page if the test runs with -artifacts.
func (p *Page) KeepPicture(name string) {
	p.T.Helper()
	if flag.Lookup("test.artifacts").Value.String() != "true" {
		return
	}
	picture, err := chromedp.Run(p, chromedp.FullScreenshot(90))
	testkit.Must(p.T, err)
	testkit.Must(p.T, os.WriteFile(filepath.Join(p.T.ArtifactDir(), name), picture, 0o600))
}

// CheckJournal checks that the browser sent requests only to this origin, and logged no errors.
func (p *Page) CheckJournal(origin string) {
	p.T.Helper()
	p.CheckOrigin(origin, 2)
	if complaints := p.Complaints(); len(complaints) > 0 {
		p.T.Errorf("the browser logged %q", complaints)
	}
}

// CheckOrigin checks that the browser sent some requests, only to this origin.
func (p *Page) CheckOrigin(origin string, least int) {
	p.T.Helper()
	urls := p.URLs()
	if len(urls) < least || slices.ContainsFunc(urls, func(u *url.URL) bool { return u.Scheme+"://"+u.Host != origin }) {
		p.T.Errorf("requests to %v, want at least %d to %s only", urls, least, origin)
	}
}

// CheckAxe runs axe-core of this repository's root on the page. Without axe-core it only logs that,
// or fails in CI.
func (p *Page) CheckAxe(root, what string) {
	p.T.Helper()
	axe, err := os.ReadFile(root + "/tools/npm/node_modules/axe-core/axe.min.js")
	if err != nil {
		if os.Getenv("CI") != "" {
			p.T.Fatal(err)
		}
		p.T.Logf("axe-core is not installed; npm ci in tools/npm installs it: %v", err)
		return
	}
	Read[any](p, string(axe)+";0")
	for _, violation := range Read[[]string](p, `axe.run().then((r) => r.violations.flatMap((v) => v.nodes.slice(0, 3).map((n) =>
		v.id + ": " + n.html.slice(0, 200) + ": " + n.failureSummary)))`) {
		p.T.Errorf("%s: %s", what, violation)
	}
}
