package openapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"opsgate/gateway/openapi/browsertest"
)

// site serves the documentation and GET /v1/me.
type site struct {
	*httptest.Server
	mu      sync.Mutex
	missing []string      // requested paths that do not exist
	calls   []http.Header // headers of the requests to GET /v1/me
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
	// The gateway does the same.
	_, _ = w.Write(bytes.ReplaceAll(page.Body, []byte("https://api.example.com"), []byte(s.URL)))
}

func TestPageListsOperationsAndCallsTheAPI(t *testing.T) {
	site := startSite(t)
	ctx, seen := browsertest.Start(t)

	err := chromedp.Do(ctx, chromedp.Navigate(site.URL+"/docs/"), chromedp.WaitVisible(chromedp.CSS(".opblock")))
	if err != nil {
		t.Fatalf("opening the page: %v", err)
	}
	browsertest.KeepPicture(ctx, t, "docs.jpg")
	if title := browsertest.Read(ctx, t, chromedp.Title()); title != "Team Operations API" {
		t.Errorf("title %q", title)
	}
	shown, described := browsertest.Read(ctx, t, chromedp.Evaluate[int](`document.querySelectorAll(".opblock").length`)),
		bytes.Count(JSON(), []byte(`"operationId":`))
	if shown != described {
		t.Errorf("the page shows %d operations, the document has %d", shown, described)
	}

	if status := tryMe(ctx, t, "ops_live_pasted"); !strings.HasPrefix(status, "200") {
		t.Errorf("the page shows status %q", status)
	}
	browsertest.KeepPicture(ctx, t, "tried.jpg")
	if len(site.calls) != 1 || site.calls[0].Get("Authorization") != "Bearer ops_live_pasted" {
		t.Fatalf("the API was called with %v", site.calls)
	}
	if n := browsertest.Read(ctx, t, chromedp.Evaluate[int](`localStorage.length + sessionStorage.length + document.cookie.length`)); n != 0 {
		t.Error("the page stored data in the browser")
	}

	own := strings.TrimPrefix(site.URL, "http://")
	if hosts := seen.Hosts(); len(hosts) < 7 || slices.ContainsFunc(hosts, func(host string) bool { return host != own }) {
		t.Errorf("requests to %v, want only %s", hosts, own)
	}
	if complaints := seen.Complaints(); len(complaints) > 0 || len(site.missing) > 0 {
		t.Errorf("errors in the browser: %q; missing: %v", complaints, site.missing)
	}
}

// tryMe enters a token on the page, calls GET /v1/me with its buttons, and returns the status that the page shows.
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
	return strings.TrimSpace(browsertest.Read(ctx, t, chromedp.Text(chromedp.CSS(operation+".live-responses-table tbody .response-col_status"))))
}
