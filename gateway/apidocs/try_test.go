package apidocs

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"opsgate/gateway/openapi"
	"opsgate/gateway/openapi/browsertest"
)

func TestTryItListsOperationsAndCallsTheAPI(t *testing.T) {
	host := startHost(t)
	ctx, seen := browsertest.Start(t)

	err := chromedp.Do(ctx, chromedp.Navigate(host.URL+"/docs/try/"), chromedp.WaitVisible(chromedp.CSS(".opblock")))
	if err != nil {
		t.Fatalf("opening the page: %v", err)
	}
	browsertest.KeepPicture(ctx, t, "try.jpg")
	if title := browsertest.Read(ctx, t, chromedp.Title()); title != "Team Operations API" {
		t.Errorf("title %q", title)
	}
	shown, described := browsertest.Read(ctx, t, chromedp.Evaluate[int](`document.querySelectorAll(".opblock").length`)),
		bytes.Count(openapi.JSON(), []byte(`"operationId":`))
	if shown != described {
		t.Errorf("the page shows %d operations, the document has %d", shown, described)
	}

	if status := tryMe(ctx, t, "ops_live_pasted"); !strings.HasPrefix(status, "200") {
		t.Errorf("the page shows status %q", status)
	}
	browsertest.KeepPicture(ctx, t, "tried.jpg")
	if len(host.calls) != 1 || host.calls[0].Get("Authorization") != "Bearer ops_live_pasted" {
		t.Fatalf("the API was called with %v", host.calls)
	}
	if n := browsertest.Read(ctx, t, chromedp.Evaluate[int](`localStorage.length + sessionStorage.length + document.cookie.length`)); n != 0 {
		t.Error("the page stored data in the browser")
	}

	own := strings.TrimPrefix(host.URL, "http://")
	if hosts := seen.Hosts(); len(hosts) < 7 || slices.ContainsFunc(hosts, func(host string) bool { return host != own }) {
		t.Errorf("requests to %v, want only %s", hosts, own)
	}
	if complaints := seen.Complaints(); len(complaints) > 0 || len(host.missing) > 0 {
		t.Errorf("errors in the browser: %q; missing: %v", complaints, host.missing)
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
