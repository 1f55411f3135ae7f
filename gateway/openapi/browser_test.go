package openapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// site serves the pages as the gateway does, and answers GET /v1/me.
type site struct {
	*httptest.Server
	mu      sync.Mutex
	missing []string      // paths that were asked for and are not there
	calls   []http.Header // of the API
}

func startSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/v1/me" {
		s.calls = append(s.calls, r.Header.Clone())
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = fmt.Fprint(w, `{"scopes":[]}`)
		return
	}
	page, ok := Lookup(r.URL.Path)
	if !ok {
		s.missing = append(s.missing, r.URL.Path)
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", page.ContentType)
	w.Header().Set("Content-Security-Policy", page.CSP)
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(page.Gzip)
}

// A journal is what the browser did and complained of.
type journal struct {
	mu         sync.Mutex
	hosts      []string
	complaints []string
}

func (j *journal) note(event any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Host != "" {
			j.hosts = append(j.hosts, u.Host)
		}
	case *runtime.EventExceptionThrown:
		j.complaints = append(j.complaints, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			for _, arg := range e.Args {
				j.complaints = append(j.complaints, "console: "+arg.Description+string(arg.Value))
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			j.complaints = append(j.complaints, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if details := e.Issue.Details.ContentSecurityPolicyIssueDetails; details != nil {
			j.complaints = append(j.complaints, "policy: "+details.ViolatedDirective+" "+details.BlockedURL)
		}
	}
}

// browse starts a browser that writes down what it does, with a profile of its own.
func browse(t *testing.T) (context.Context, *journal) {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		const how = "there is no chromium to look at the page with; on Debian: apt-get install -y chromium"
		if os.Getenv("CI") == "true" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 1600),
	}
	for _, flag := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update", "disable-sync", "no-first-run",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	seen := &journal{}
	if err := chromedp.Listen(ctx, seen.note); err != nil {
		t.Fatalf("starting the browser: %v", err)
	}
	_, networkErr := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	_, runtimeErr := chromedp.Call(ctx, runtime.Enable, cdp.Empty{})
	_, logErr := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	_, auditsErr := chromedp.Call(ctx, audits.Enable, cdp.Empty{})
	if err := errors.Join(networkErr, runtimeErr, logErr, auditsErr); err != nil {
		t.Fatalf("asking the browser what it does: %v", err)
	}
	return ctx, seen
}

func TestThePageShowsAndTriesTheAPI(t *testing.T) {
	site := startSite(t)
	ctx, seen := browse(t)

	err := chromedp.Do(ctx, chromedp.Navigate(site.URL+"/docs/"), chromedp.WaitVisible(chromedp.CSS(".opblock")))
	if err != nil {
		t.Fatalf("opening the page: %v", err)
	}
	keepPicture(ctx, t, "docs.jpg")
	if title := read(ctx, t, chromedp.Title()); title != "Team Operations API" {
		t.Errorf("title %q", title)
	}
	if n := read(ctx, t, chromedp.Evaluate[int](`document.querySelectorAll(".opblock").length`)); n != 17 {
		t.Errorf("%d operations", n)
	}

	if status := tryMe(ctx, t, "ops_live_pasted"); !strings.HasPrefix(status, "200") {
		t.Errorf("the page shows status %q", status)
	}
	keepPicture(ctx, t, "tried.jpg")
	if len(site.calls) != 1 || site.calls[0].Get("Authorization") != "Bearer ops_live_pasted" {
		t.Fatalf("the API was called with %v", site.calls)
	}
	for _, optional := range []string{"If-None-Match", "X-Request-Id"} {
		if value := site.calls[0].Get(optional); value != "" {
			t.Errorf("the page filled in %s: %s, which nobody asked for", optional, value)
		}
	}
	if n := read(ctx, t, chromedp.Evaluate[int](`localStorage.length + sessionStorage.length + document.cookie.length`)); n != 0 {
		t.Error("the page stored something")
	}

	seen.mu.Lock()
	defer seen.mu.Unlock()
	own := strings.TrimPrefix(site.URL, "http://")
	if len(seen.hosts) < 7 || slices.ContainsFunc(seen.hosts, func(host string) bool { return host != own }) {
		t.Errorf("requests went to %v", seen.hosts)
	}
	if len(seen.complaints) > 0 || len(site.missing) > 0 {
		t.Errorf("the browser complains: %q; missing: %v", seen.complaints, site.missing)
	}
}

// tryMe pastes a token, calls GET /v1/me as a reader would, and returns the status that the page shows.
func tryMe(ctx context.Context, t *testing.T, token string) string {
	t.Helper()
	const operation = "#operations-Token-v1Me "
	err := chromedp.Do(ctx,
		chromedp.Click(chromedp.CSS(".auth-wrapper .authorize")),
		chromedp.SendKeys(chromedp.CSS(".auth-container input"), token),
		chromedp.Click(chromedp.CSS(".auth-btn-wrapper .authorize")),
		chromedp.Click(chromedp.CSS(".auth-btn-wrapper .btn-done")),
		chromedp.Click(chromedp.CSS(operation+".opblock-summary-control")),
		chromedp.Click(chromedp.CSS(operation+".try-out__btn")),
		chromedp.Click(chromedp.CSS(operation+".execute")),
	)
	if err != nil {
		t.Fatalf("trying the API: %v", err)
	}
	return strings.TrimSpace(read(ctx, t, chromedp.Text(chromedp.CSS(operation+".live-responses-table tbody .response-col_status"))))
}

// read returns what an action finds on the page.
func read[T any](ctx context.Context, t *testing.T, action chromedp.Action[T]) T {
	t.Helper()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		t.Fatalf("reading the page: %v", err)
	}
	return value
}

// keepPicture takes a picture for whoever runs the test with -artifacts.
func keepPicture(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name), read(ctx, t, chromedp.FullScreenshot(90)), 0o600); err != nil {
		t.Fatal(err)
	}
}
