package system

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"opsgate/cmd/internal/test/testkit"
)

func create(t *testing.T, c client, status string) string {
	t.Helper()
	return c.post(t, "/v1/incidents", `{"title":"T","status":"`+status+`","impact":"none","message":"m"}`).object(t).text("id")
}

func TestIncidentTakesTheStatusOfItsLastUpdate(t *testing.T) {
	full := programs.shared.as(t, "full")
	id := create(t, full, "investigating")
	path := "/v1/incidents/" + id
	created := full.get(t, path).object(t)
	if created.text("startedAt") != created.text("createdAt") || created["resolvedAt"] != nil || created["isMaintenance"] != false || created["statusPageId"] != nil {
		t.Errorf("a new incident is %v", created)
	}
	var firstResolved any
	for i, step := range []struct {
		status   string
		resolved bool
	}{{"identified", false}, {"resolved", true}, {"resolved", true}, {"monitoring", false}, {"resolved", true}} {
		update := full.post(t, path+"/updates", fmt.Sprintf(`{"status":%q,"message":"step %d","notifySubscribers":false}`, step.status, i)).object(t)
		now := full.get(t, path).object(t)
		last := now.items("updates")[len(now.items("updates"))-1]
		if now.text("status") != step.status || (now["resolvedAt"] != nil) != step.resolved {
			t.Errorf("after %s: status %v, resolvedAt %v", step.status, now["status"], now["resolvedAt"])
		}
		if last.text("id") != update.text("id") || last.text("message") != fmt.Sprintf("step %d", i) || len(now.items("updates")) != i+2 {
			t.Errorf("after step %d the timeline is %v", i, now.items("updates"))
		}
		switch i {
		case 1:
			firstResolved = now["resolvedAt"]
		case 2:
			if now["resolvedAt"] != firstResolved {
				t.Error("resolving again changed resolvedAt")
			}
		}
	}
	done := full.get(t, "/v1/incidents/"+create(t, full, "resolved")).object(t)
	if done.text("resolvedAt") != done.text("createdAt") {
		t.Errorf("created as resolved: resolvedAt %v, createdAt %v", done["resolvedAt"], done["createdAt"])
	}
}

func TestStatusPageShowsItsNewestIncidentFirst(t *testing.T) {
	full := programs.shared.as(t, "full")
	pages := full.get(t, "/v1/status-pages").array(t)
	var page object
	for _, p := range pages {
		if detail := full.get(t, "/v1/status-pages/"+p.text("id")).object(t); len(detail.items("components")) > 0 {
			page = detail
		}
	}
	component := page.items("components")[0].text("id")
	body := fmt.Sprintf(`{"title":"On a page","status":"identified","impact":"major","message":"m","statusPageId":%q,"componentIds":[%q,%q]}`,
		strings.ToUpper(page.text("id")), component, component)
	id := full.post(t, "/v1/incidents", body).object(t).text("id")
	if got := full.get(t, "/v1/incidents/"+id).object(t).text("statusPageId"); got != page.text("id") {
		t.Errorf("statusPageId = %q, want %q in lower case", got, page.text("id"))
	}
	shown := full.get(t, "/v1/status-pages/"+page.text("id")+"/incidents").array(t)
	if len(shown) == 0 || shown[0].text("id") != id || len(shown) > 100 {
		t.Errorf("the page does not show its newest incident first, or shows more than 100: %d", len(shown))
	}
}

func TestReferencesToUnknownOrForeignResourcesAreRefused(t *testing.T) {
	full, other := programs.shared.as(t, "full"), programs.shared.as(t, "other_team")
	foreignPage := other.get(t, "/v1/status-pages").array(t)[0].text("id")
	pages := full.get(t, "/v1/status-pages").array(t)
	var components [][]object
	for _, p := range pages {
		components = append(components, full.get(t, "/v1/status-pages/"+p.text("id")).object(t).items("components"))
	}
	otherPage := slices.IndexFunc(components[1:], func(c []object) bool { return len(c) > 0 }) + 1
	const unknown = "00000000-0000-7000-8000-000000000000"
	for name, c := range map[string]struct{ extra, field string }{
		"page of another team":      {fmt.Sprintf(`"statusPageId":%q`, foreignPage), "statusPageId"},
		"unknown page":              {fmt.Sprintf(`"statusPageId":%q`, unknown), "statusPageId"},
		"unknown component":         {fmt.Sprintf(`"componentIds":[%q]`, unknown), "componentIds"},
		"component of another page": {fmt.Sprintf(`"statusPageId":%q,"componentIds":[%q]`, pages[0].text("id"), components[otherPage][0].text("id")), "componentIds"},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"title":"t","status":"resolved","impact":"none","message":"m",` + c.extra + `}`
			if details := full.post(t, "/v1/incidents", body).fails(t, 422, "validation_error"); details[c.field] == "" || len(details) != 1 {
				t.Errorf("details = %v", details)
			}
		})
	}
}

func TestAllInvalidFieldsAreReportedTogether(t *testing.T) {
	full := programs.shared.as(t, "full")
	details := full.post(t, "/v1/incidents", `{"title":"","status":"open","impact":7,"statusPageId":"x","componentIds":"y","notifySubscribers":true}`).
		fails(t, 422, "validation_error")
	for _, field := range []string{"title", "status", "impact", "message", "statusPageId", "componentIds", "notifySubscribers"} {
		if details[field] == "" {
			t.Errorf("%s is not reported in %v", field, details)
		}
	}
	for target, field := range map[string]string{
		"/v1/incidents?limit=0": "limit", "/v1/audit?limit=101": "limit", "/v1/incidents?limit=": "limit", "/v1/incidents?limit=1&limit=2": "limit",
		"/v1/servers/" + full.id(t, "/v1/servers") + "/commands?pageSize=101": "pageSize", "/v1/servers/" + full.id(t, "/v1/servers") + "/commands?page=abc": "page",
		"/v1/servers/" + full.id(t, "/v1/servers") + "/metrics?range=2h": "range", "/v1/monitors/" + full.id(t, "/v1/monitors") + "/checks?since=yesterday": "since",
	} {
		if details := full.get(t, target).fails(t, 422, "validation_error"); details[field] == "" || len(details) != 1 {
			t.Errorf("%s: details %v", target, details)
		}
	}
}

// walk returns the items of all pages. It calls between before each page except the first.
func walk(t *testing.T, c client, target string, between func()) []object {
	t.Helper()
	var all []object
	for next := target; ; {
		r := c.get(t, next)
		page := r.object(t)
		all = append(all, page.items("items")...)
		cursor := page.text("nextCursor")
		if cursor == "" {
			if r.header.Get("Link") != "" {
				t.Error("the last page has a Link")
			}
			return all
		}
		next = target + "&cursor=" + url.QueryEscape(cursor)
		if link := r.header.Get("Link"); !strings.Contains(link, "cursor="+url.QueryEscape(cursor)) || !strings.Contains(link, `rel="next"`) {
			t.Errorf("Link = %q", link)
		}
		between()
	}
}

func TestWritesDoNotShiftPages(t *testing.T) {
	full := programs.shared.as(t, "full")
	for _, target := range []string{"/v1/incidents?limit=17", "/v1/audit?limit=17", "/v1/audit?limit=3&action=incident."} {
		t.Run(target, func(t *testing.T) {
			before := walk(t, full, target, func() {})
			if len(before) < 34 || len(byID(before)) != len(before) {
				t.Fatalf("%d items, %d distinct", len(before), len(byID(before)))
			}
			during := walk(t, full, target, func() { create(t, full, "monitoring") })
			if fmt.Sprint(textsOf(before)) != fmt.Sprint(textsOf(during)) {
				t.Error("writes between the pages changed the items")
			}
		})
	}
}

func textsOf(os []object) []string {
	ids := make([]string, len(os))
	for i, o := range os {
		ids[i] = o.text("id")
	}
	return ids
}

func TestForeignCursorsAreIgnored(t *testing.T) {
	full, other := programs.shared.as(t, "full"), programs.shared.as(t, "other_team")
	first := full.get(t, "/v1/incidents?limit=2").object(t)
	own := first.text("nextCursor")
	audit := full.get(t, "/v1/audit?limit=2").object(t).text("nextCursor")
	foreign := other.get(t, "/v1/incidents?limit=1").object(t).text("nextCursor")
	for name, cursor := range map[string]string{"nonsense": "nonsense", "of another list": audit, "of another team": foreign, "twice": own + "&cursor=" + own} {
		r := full.get(t, "/v1/incidents?limit=2&cursor="+cursor)
		if r.header.Get("Cursor-Status") != "ignored" || fmt.Sprint(r.object(t)["items"]) != fmt.Sprint(first["items"]) {
			t.Errorf("a cursor %s: Cursor-Status %q, or not the first page", name, r.header.Get("Cursor-Status"))
		}
	}
	if r := full.get(t, "/v1/incidents?limit=2&cursor="+own); r.header.Get("Cursor-Status") != "" {
		t.Error("a valid cursor is ignored")
	}
}

func TestActionFilterIsALiteralPrefix(t *testing.T) {
	full := programs.shared.as(t, "full")
	for _, e := range full.get(t, "/v1/audit?action=incident.&limit=100").object(t).items("items") {
		if !strings.HasPrefix(e.text("actionType"), "incident.") {
			t.Errorf("action %s", e.text("actionType"))
		}
	}
	for _, prefix := range []string{"%25", "incident_", "INCIDENT.", "nothing."} {
		if items := full.get(t, "/v1/audit?action="+prefix).object(t).items("items"); len(items) != 0 {
			t.Errorf("%s matches %d entries", prefix, len(items))
		}
	}
}

func TestCreatingAnIncidentIsAudited(t *testing.T) {
	full := programs.shared.as(t, "full")
	id := create(t, full, "identified")
	entry := full.get(t, "/v1/audit?limit=1").object(t).items("items")[0]
	if entry.text("actionType") != "incident.created" || entry.text("resourceId") != id || entry.text("ipAddress") != "127.0.0.1" {
		t.Errorf("the newest entry is %v", entry)
	}
}

func TestIdempotencyKeyReplaysTheFirstResponse(t *testing.T) {
	full := programs.shared.as(t, "full")
	key := "Idempotency-Key: " + rand.Text()
	body := `{"title":"Once","status":"identified","impact":"none","message":"m"}`
	first := full.post(t, "/v1/incidents", body, key).must(t, 200)
	again := full.post(t, "/v1/incidents", `{ "message":"m","title":"Once", "impact":"none","status":"identified"}`, key).must(t, 200)
	if string(first.body) != string(again.body) || again.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("first %s, again %s, replayed %q", first.body, again.body, again.header.Get("Idempotent-Replayed"))
	}
	details := full.post(t, "/v1/incidents", strings.Replace(body, "Once", "Twice", 1), key).fails(t, 422, "validation_error")
	if details["Idempotency-Key"] != "was used with another body or path in the last 24 hours" {
		t.Errorf("another body: details = %v", details)
	}
	update := "/v1/incidents/" + first.object(t).text("id") + "/updates"
	details = full.post(t, update, `{"status":"resolved","message":"m"}`, key).fails(t, 422, "validation_error")
	if details["Idempotency-Key"] != "was used for another operation in the last 24 hours" {
		t.Errorf("another operation: details = %v", details)
	}
	if other := programs.shared.as(t, "other_team").post(t, "/v1/incidents", body, key).must(t, 200); other.header.Get("Idempotent-Replayed") != "" {
		t.Error("a key is shared between teams")
	}
}

func TestConcurrentRepeatsAreExecutedOnce(t *testing.T) {
	full, key := programs.shared.as(t, "full"), "Idempotency-Key: "+rand.Text()
	var wg sync.WaitGroup
	answers := make([]response, 16)
	for i := range answers {
		wg.Go(func() {
			answers[i], _ = full.try(t.Context(), "POST", "/v1/incidents", newIncident, key)
		})
	}
	wg.Wait()
	created, first := map[string]bool{}, 0
	for _, a := range answers {
		switch a.status {
		case 200:
			var o object
			testkit.Must(t, json.Unmarshal(a.body, &o))
			created[o.text("id")] = true
			if a.header.Get("Idempotent-Replayed") == "" {
				first++
			}
		case 409: // the first is still in progress
			if a.header.Get("Retry-After") == "" {
				t.Error("a 409 has no Retry-After")
			}
		default:
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if len(created) != 1 || first != 1 {
		t.Errorf("%d incidents, %d responses that are not replays, want 1 and 1", len(created), first)
	}
}
