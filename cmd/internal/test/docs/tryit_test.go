package docs

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"opsgate/cmd/internal/test/testkit"
	"opsgate/gateway/apidocs/samples"
	"opsgate/gateway/openapi/browsertest"
	"opsgate/gateway/openapi/openapitest"
)

// A tryPage is the page /docs/try/ in a browser.
type tryPage struct {
	system

	ctx  context.Context //nolint:containedctx // the browser
	seen *browsertest.Journal
}

// try opens a link below /docs/try/.
func try(t *testing.T, link string) tryPage {
	t.Helper()
	ctx, seen := browsertest.Start(t)
	p := tryPage{system: start(t, ""), ctx: ctx, seen: seen}
	p.open(t, link)
	return p
}

func (p tryPage) open(t *testing.T, link string) {
	t.Helper()
	testkit.Must(t, chromedp.Do(p.ctx, chromedp.Navigate("about:blank"))) // so that a new fragment loads the page again
	testkit.Must(t, chromedp.Do(p.ctx, chromedp.Navigate(p.BaseURL+"/docs/try/"+link), chromedp.WaitVisible(chromedp.CSS(".opblock"))))
}

// authorize pastes a demo token.
func (p tryPage) authorize(t *testing.T, token string) {
	t.Helper()
	testkit.Must(t, chromedp.Do(p.ctx,
		chromedp.Click(chromedp.CSS(".auth-wrapper .authorize")),
		chromedp.SendKeys(chromedp.CSS(".auth-container input"), p.Tokens[token]),
	))
	if typed := browsertest.Read(p.ctx, t, chromedp.Value(chromedp.CSS(".auth-container input"))); typed != p.Tokens[token] {
		t.Fatalf("the field of the token has %d characters, want %d", len(typed), len(p.Tokens[token]))
	}
	testkit.Must(t, chromedp.Do(p.ctx,
		chromedp.Click(chromedp.CSS(".auth-btn-wrapper .authorize")),
		chromedp.Click(chromedp.CSS(".auth-btn-wrapper .btn-done")),
	))
}

// execute calls the open operation and returns the status and the body that the page shows.
func (p tryPage) execute(t *testing.T) (status, body string) {
	t.Helper()
	testkit.Must(t, chromedp.Do(p.ctx, chromedp.Click(chromedp.CSS(".opblock.is-open .execute"))))
	status = browsertest.Read(p.ctx, t, chromedp.Text(chromedp.CSS(".opblock.is-open .live-responses-table tbody .response-col_status")))
	body = browsertest.Read(p.ctx, t, chromedp.Evaluate[string](
		`document.querySelector(".opblock.is-open .live-responses-table .highlight-code pre").textContent`))
	status, _, _ = strings.Cut(strings.TrimSpace(status), "\n")
	return status, body
}

// id returns the value of the field id of the open operation.
func (p tryPage) id(t *testing.T) string {
	t.Helper()
	return browsertest.Read(p.ctx, t, chromedp.Value(chromedp.CSS(`.opblock.is-open tr[data-param-name="id"] input`)))
}

// awaitID waits until the field id of the open operation has a value.
func (p tryPage) awaitID(t *testing.T, want string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); p.id(t) != want; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("the field has %s, want %s; errors in the browser: %q", p.id(t), want, p.seen.Complaints())
		}
	}
}

func (p tryPage) evaluate(t *testing.T, expression string) string {
	t.Helper()
	return browsertest.Read(p.ctx, t, chromedp.Evaluate[string](expression))
}

// checkQuiet checks that the page stored nothing, used no other host, and caused no error in the browser.
func (p tryPage) checkQuiet(t *testing.T) {
	t.Helper()
	if stored := p.evaluate(t, `JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie`); stored != "{}{}" {
		t.Errorf("the page stored %s in the browser", stored)
	}
	own := strings.TrimPrefix(p.BaseURL, "http://")
	if hosts := p.seen.Hosts(); len(hosts) < 6 || slices.ContainsFunc(hosts, func(host string) bool { return host != own }) {
		t.Errorf("requests to %v, want only %s", hosts, own)
	}
	if complaints := p.seen.Complaints(); len(complaints) > 0 {
		t.Errorf("errors in the browser: %q", complaints)
	}
}

func (p tryPage) ids(t *testing.T, list, token string) (ids []string) {
	t.Helper()
	_, body := p.call(t, samples.Request{Method: http.MethodGet, Path: list}, token)
	var items []struct{ ID string }
	testkit.Must(t, json.Unmarshal(body, &items))
	for _, item := range items {
		ids = append(ids, item.ID)
	}
	return ids
}

func TestTryItHasEveryOperation(t *testing.T) {
	p := try(t, "")
	browsertest.KeepPicture(p.ctx, t, "try.jpg")
	shown := browsertest.Read(p.ctx, t, chromedp.Evaluate[int](`document.querySelectorAll(".opblock").length`))
	if all := len(openapitest.Operations()); shown != all {
		t.Errorf("the page shows %d operations, the document has %d", shown, all)
	}
	if back := p.evaluate(t, `document.querySelector("header a").href`); back != p.BaseURL+"/docs/" {
		t.Errorf("it links to %s", back)
	}
	testkit.Must(t, chromedp.Do(p.ctx, chromedp.Click(chromedp.CSS("#operations-Token-v1Me .opblock-summary-control"))))
	p.authorize(t, "full")
	if status, body := p.execute(t); status != "200" || !strings.Contains(body, `"audit:read"`) {
		t.Errorf("GET /v1/me: status %s\n%s", status, body)
	}
	p.checkQuiet(t)
}

func TestTryItLinkOpensARequest(t *testing.T) {
	p := try(t, "#/Token/v1Me")
	servers := p.ids(t, "/v1/servers", "servers:read")
	linked := servers[3]
	p.open(t, "?id="+linked+"&range=1h#/Servers/v1GetServerMetrics")
	if got := p.id(t); got != linked {
		t.Errorf("the field has %s, the link %s", got, linked)
	}
	if open := p.evaluate(t, `[...document.querySelectorAll(".opblock.is-open")].map((o) => o.id).join()`); open != "operations-Servers-v1GetServerMetrics" {
		t.Errorf("open: %s", open)
	}
	p.authorize(t, "full")
	status, body := p.execute(t)
	browsertest.KeepPicture(p.ctx, t, "linked.jpg")
	if status != "200" || !strings.Contains(body, `"range": "1h"`) {
		t.Errorf("status %s\n%s", status, body)
	}
	const field = `.opblock.is-open tr[data-param-name="id"] input`
	p.evaluate(t, "document.querySelector('"+field+"').select(); ''")
	testkit.Must(t, chromedp.Do(p.ctx, chromedp.SendKeys(chromedp.CSS(field), servers[5])))
	testkit.Must(t, chromedp.Do(p.ctx, chromedp.Click(chromedp.CSS("#operations-Servers-v1GetServer .opblock-summary-control"))))
	address, err := url.Parse(p.evaluate(t, `location.href`))
	testkit.Must(t, err)
	if q := address.Query(); q.Get("id") != servers[5] || q.Get("range") != "1h" || address.Fragment != "/Servers/v1GetServer" {
		t.Errorf("after a change of the field and a click on another operation the address is %s", address)
	}
	p.checkQuiet(t)
}

func TestTryItUsesTheIDsOfTheReadersTeam(t *testing.T) {
	p := try(t, "#/Servers/v1GetServer")
	example := p.id(t)
	if !slices.Contains(p.ids(t, "/v1/servers", "full"), example) {
		t.Errorf("the example %s is not in the demo data", example)
	}
	p.authorize(t, "other_team")
	own := p.ids(t, "/v1/servers", "other_team")[0]
	p.awaitID(t, own)
	if status, body := p.execute(t); status != "200" || !strings.Contains(body, own) {
		t.Errorf("status %s\n%s", status, body)
	}
	p.checkQuiet(t)
}

func TestTryItCreatesAnIncidentFromTheSmallestBody(t *testing.T) {
	p := try(t, "#/Incidents/v1CreateIncident")
	p.authorize(t, "incidents:write")
	status, body := p.execute(t)
	var created struct{ ID, Title string }
	if err := json.Unmarshal([]byte(body), &created); err != nil || status != "200" {
		t.Fatalf("status %s: %v\n%s", status, err, body)
	}
	_, kept := p.call(t, samples.Request{Method: http.MethodGet, Path: "/v1/incidents/" + created.ID}, "full")
	if !strings.Contains(samples.Requests()["v1CreateIncident"].Body, created.Title) || !strings.Contains(string(kept), created.Title) {
		t.Errorf("the page shows %s, the API has %s", body, kept)
	}
	const curl = `document.querySelector(".opblock.is-open .curl-command").textContent`
	if command := p.evaluate(t, curl); !strings.Contains(command, "Idempotency-Key: ") {
		t.Errorf("the request has no Idempotency-Key: %s", command)
	} else if strings.Contains(command, p.Tokens["incidents:write"]) || !strings.Contains(command, `-H "Authorization: Bearer $OPS_TOKEN"`) {
		t.Error("the command has the token and not the variable OPS_TOKEN")
	}
	browsertest.KeepPicture(p.ctx, t, "created.jpg")
	if field := p.evaluate(t, `document.querySelector('.opblock.is-open tr[data-param-name="Idempotency-Key"]').textContent`); !strings.Contains(field,
		"sends a new random key") {
		t.Errorf("the field does not tell what an empty key means: %s", field)
	}
	p.checkQuiet(t)
}

func TestTryItHasTheThemeOfTheDocumentation(t *testing.T) {
	p := try(t, "")
	const filter = `getComputedStyle(document.documentElement).filter`
	if got := p.evaluate(t, filter); got != "none" {
		t.Errorf("the light page has the filter %s", got)
	}
	p.evaluate(t, `localStorage.setItem("theme", "dark"); ""`)
	p.open(t, "#/Incidents/v1CreateIncident")
	browsertest.KeepPicture(p.ctx, t, "dark.jpg")
	if got := p.evaluate(t, filter); !strings.HasPrefix(got, "invert(0.9)") {
		t.Errorf("the dark page has the filter %s", got)
	}
}

func TestTryItFitsAPhone(t *testing.T) {
	p := try(t, "")
	testkit.Must(t, chromedp.Do(p.ctx, chromedp.EmulateViewport(390, 844)))
	p.open(t, "#/Incidents/v1CreateIncident")
	const top = `document.querySelector(".opblock.is-open").getBoundingClientRect().top`
	browsertest.Read(p.ctx, t, chromedp.Poll[bool](top+" > -50 && "+top+" < innerHeight / 2")) // it scrolls there
	browsertest.KeepPicture(p.ctx, t, "phone.jpg")
	if width := browsertest.Read(p.ctx, t, chromedp.Evaluate[int](`document.documentElement.scrollWidth`)); width > 390 {
		t.Errorf("the page is %d pixels wide", width)
	}
}

// knownViolations lists the rules that parts of Swagger UI break which a style sheet cannot correct (docs/develop/api-docs.md, "Try it").
func knownViolations() []string {
	return []string{"heading-order", "label", "nested-interactive", "select-name"}
}

func TestTryItIsAccessible(t *testing.T) {
	axe, err := os.ReadFile(npm + "/axe-core/axe.min.js")
	if err != nil {
		missing(t, "the packages of tools/npm are not installed: make test-packages")
	}
	p := try(t, "#/Incidents/v1CreateIncident")
	browsertest.Read(p.ctx, t, chromedp.EvaluateAsDevTools[any](string(axe)+";0"))
	found := browsertest.Read(p.ctx, t, chromedp.Evaluate[[]string](
		`axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target)))`,
		func(e *runtime.EvaluateParams) { e.AwaitPromise = new(true) }))
	for _, violation := range found {
		if id, _, _ := strings.Cut(violation, ":"); !slices.Contains(knownViolations(), id) {
			t.Error(violation)
		}
	}
}
