package browsertest

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"opsgate/internal/testkit"
)

// timeout limits how long a test uses the browser.
const timeout = 10 * time.Minute

func (p *Page) record(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Host != "" {
			p.urls = append(p.urls, u)
		}
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			for _, arg := range e.Args {
				p.complaints = append(p.complaints, "console: "+arg.Description+string(arg.Value))
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.complaints = append(p.complaints, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if details := e.Issue.Details.ContentSecurityPolicyIssueDetails; details != nil {
			p.complaints = append(p.complaints, "policy: "+details.ViolatedDirective+" "+details.BlockedURL)
		}
	}
}

// Start starts a browser with a new profile until the end of the test, and records its requests and
// errors. Without Chromium it skips the test, or fails it in CI.
func Start(t *testing.T) *Page {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(testkit.Find(t, "chromium")), chromedp.WindowSize(1280, 1600),
	}
	for _, flag := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update", "disable-sync",
		"no-first-run",
		"disable-ipc-flooding-protection", // tests open more links in a second than a person
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &Page{Context: ctx, T: t}
	if err := chromedp.Listen(ctx, p.record); err != nil {
		t.Fatalf("starting the browser: %v", err)
	}
	_, networkErr := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	_, runtimeErr := chromedp.Call(ctx, runtime.Enable, cdp.Empty{})
	_, logErr := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	_, auditsErr := chromedp.Call(ctx, audits.Enable, cdp.Empty{})
	if err := errors.Join(networkErr, runtimeErr, logErr, auditsErr); err != nil {
		t.Fatalf("enabling the events of the browser: %v", err)
	}
	return p
}
