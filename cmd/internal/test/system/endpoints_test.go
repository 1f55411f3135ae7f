package system

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/authn"
	"opsgate/gateway/openapi/openapitest"
)

const (
	newIncident = `{"title":"Checkout is slow","status":"investigating","impact":"minor","message":"We are looking."}`
	newUpdate   = `{"status":"resolved","message":"Fixed."}`
)

// A call is a request to one operation.
type call struct {
	openapitest.Operation
	target string // its path with the ID of an existing resource
}

// calls returns a call of every operation in the OpenAPI document, on the resources of the client's team.
func calls(t *testing.T, c client) []call {
	t.Helper()
	operations := openapitest.Operations()
	all := make([]call, len(operations))
	for i, o := range operations {
		all[i] = call{o, c.target(t, o)}
	}
	return all
}

// target returns the path of an operation. {id} becomes the ID of the first resource in the list for which a GET returns
// data.
func (c client) target(t *testing.T, o openapitest.Operation) string {
	t.Helper()
	list, rest, byID := strings.Cut(o.Path, "/{id}")
	if !byID {
		return o.Path
	}
	for _, resource := range c.get(t, list).list(t) {
		target := list + "/" + resource.text("id") + rest
		if o.Method != http.MethodGet || len(c.get(t, target).body) > len("[]") {
			return target
		}
	}
	t.Fatalf("%s: the demo data has no resource for this operation", o.ID)
	return ""
}

// id returns the ID of the first resource in a list.
func (c client) id(t *testing.T, list string) string {
	t.Helper()
	return c.get(t, list).list(t)[0].text("id")
}

// send sends the call.
func (c client) send(t *testing.T, o call) response {
	t.Helper()
	return c.do(t, o.Method, o.target, o.Body)
}

func TestEveryOperationReturnsDemoData(t *testing.T) {
	full := programs.shared.as(t, "full")
	for _, o := range calls(t, full) {
		t.Run(o.ID, func(t *testing.T) {
			if r := full.send(t, o).must(t, 200); len(r.body) <= len("[]") {
				t.Errorf("the demo data has no resource for this operation: %s", r.body)
			}
		})
	}
}

func TestEveryOperationNeedsAValidToken(t *testing.T) {
	all := calls(t, programs.shared.as(t, "full"))
	for _, name := range []string{"", "revoked"} {
		for _, o := range all {
			programs.shared.as(t, name).send(t, o).fails(t, 401, "unauthorized")
		}
	}
	malformed := client{system: programs.shared, token: "ops_live_nonsense", validator: openapitest.New(t)}
	malformed.get(t, "/v1/me").fails(t, 401, "unauthorized")
}

func TestEveryOperationNeedsExactlyItsScope(t *testing.T) {
	tokens := []string{"none"}
	for _, scope := range authn.AllScopes() {
		tokens = append(tokens, string(scope))
	}
	for _, o := range calls(t, programs.shared.as(t, "full")) {
		for _, name := range tokens {
			r := programs.shared.as(t, name).send(t, o)
			if o.Scope == "" || name == o.Scope {
				r.must(t, 200)
				continue
			}
			if details := r.fails(t, 403, "forbidden"); details["required"] != o.Scope || len(details) != 1 {
				t.Errorf("%s with %s: details %v", o.ID, name, details)
			}
		}
	}
}

func TestResourcesOfAnotherTeamAreNotFound(t *testing.T) {
	other := programs.shared.as(t, "other_team")
	for _, o := range calls(t, programs.shared.as(t, "full")) {
		if o.target == o.Path {
			continue
		}
		foreign := other.send(t, o)
		foreign.fails(t, 404, "not_found")
		o.target = strings.Replace(o.Path, "{id}", "00000000-0000-7000-8000-000000000000", 1)
		if unknown := other.send(t, o); string(unknown.body) != string(foreign.body) {
			t.Errorf("%s: the response to another team's ID differs from that to an unknown ID: %s, %s", o.ID, foreign.body, unknown.body)
		}
	}
}

func TestListsOfTwoTeamsHaveNoResourceInCommon(t *testing.T) {
	full, other := programs.shared.as(t, "full"), programs.shared.as(t, "other_team")
	for _, o := range openapitest.Operations() {
		if o.Method != http.MethodGet || strings.Contains(o.Path, "{id}") || o.Scope == "" {
			continue
		}
		foreign := byID(other.get(t, o.Path).list(t))
		for id := range byID(full.get(t, o.Path).list(t)) {
			if foreign[id] {
				t.Errorf("%s: %s is in two teams", o.ID, id)
			}
		}
	}
}

func TestEveryOperationNeedsThePlan(t *testing.T) {
	for _, o := range calls(t, programs.shared.as(t, "full")) {
		details := programs.shared.as(t, "no_plan").send(t, o).fails(t, 403, "forbidden")
		if len(details) != 1 || details["requiredPlan"] != "ai" {
			t.Errorf("%s: details %v", o.ID, details)
		}
	}
}

func TestMeReturnsTheToken(t *testing.T) {
	me := programs.shared.as(t, "incidents:write").get(t, "/v1/me").object(t)
	if fmt.Sprint(me["scopes"]) != "[incidents:write]" {
		t.Errorf("scopes = %v", me["scopes"])
	}
	all := authn.AllScopes()
	readOnly := slices.DeleteFunc(slices.Clone(all), func(s authn.Scope) bool { return s == authn.IncidentsWrite })
	full, read := programs.shared.as(t, "full").get(t, "/v1/me").object(t), programs.shared.as(t, "read").get(t, "/v1/me").object(t)
	if fmt.Sprint(full["scopes"]) != fmt.Sprint(all) || fmt.Sprint(read["scopes"]) != fmt.Sprint(readOnly) {
		t.Errorf("full has %v, read has %v", full["scopes"], read["scopes"])
	}
	if full["teamId"] != me["teamId"] || full["tokenId"] == me["tokenId"] {
		t.Errorf("full = %v, incidents:write = %v", full, me)
	}
}

func byID(os []object) map[string]bool {
	found := make(map[string]bool, len(os))
	for _, o := range os {
		found[o.text("id")] = true
	}
	return found
}

// ordered fails the test unless there are at least two items, in order.
func ordered(t *testing.T, what string, items []object, before func(a, b object) int) {
	t.Helper()
	if len(items) < 2 {
		t.Errorf("%s: %d items, want at least 2", what, len(items))
	}
	if !slices.IsSortedFunc(items, before) {
		t.Errorf("%s are out of order", what)
	}
}

func TestListsAreInTheDocumentedOrder(t *testing.T) {
	full := programs.shared.as(t, "full")
	byName := func(a, b object) int {
		return cmp.Or(cmp.Compare(a.text("name"), b.text("name")), cmp.Compare(a.text("id"), b.text("id")))
	}
	byPosition := func(a, b object) int { return cmp.Compare(a["position"].(float64), b["position"].(float64)) }
	newest := func(a, b object) int { return cmp.Compare(b.text("createdAt"), a.text("createdAt")) }

	servers, pages := full.get(t, "/v1/servers").array(t), full.get(t, "/v1/status-pages").array(t)
	ordered(t, "servers", servers, byName)
	ordered(t, "status pages", pages, byName)
	ordered(t, "monitors", full.get(t, "/v1/monitors").array(t), byName)
	ordered(t, "server groups", full.get(t, "/v1/server-groups").array(t), byPosition)
	ordered(t, "incidents", full.get(t, "/v1/incidents?limit=100").object(t).items("items"), newest)
	ordered(t, "audit entries", full.get(t, "/v1/audit?limit=100").object(t).items("items"), newest)
	ordered(t, "metric points", full.get(t, "/v1/servers/"+servers[0].text("id")+"/metrics").object(t).items("points"),
		func(a, b object) int { return cmp.Compare(a.text("at"), b.text("at")) })
	monitor := full.id(t, "/v1/monitors")
	ordered(t, "checks", full.get(t, "/v1/monitors/"+monitor+"/checks").array(t),
		func(a, b object) int { return cmp.Compare(b.text("checkedAt"), a.text("checkedAt")) })
	components := 0
	for _, p := range pages {
		c := full.get(t, "/v1/status-pages/"+p.text("id")).object(t).items("components")
		if len(c) > 1 {
			ordered(t, "components", c, byPosition)
			components++
		}
	}
	if components == 0 {
		t.Error("no page has components")
	}
}

func TestMetricRangesHaveTheirResolution(t *testing.T) {
	full := programs.shared.as(t, "full")
	server := full.id(t, "/v1/servers")
	for span, resolution := range map[string]string{"1h": "raw", "24h": "raw", "7d": "hourly", "30d": "hourly"} {
		m := full.get(t, "/v1/servers/"+server+"/metrics?range="+span).object(t)
		if m.text("range") != span || m.text("resolution") != resolution || len(m.items("points")) == 0 {
			t.Errorf("%s: range %q, resolution %q, %d points", span, m.text("range"), m.text("resolution"), len(m.items("points")))
		}
	}
	if byDefault := full.get(t, "/v1/servers/"+server+"/metrics").object(t); byDefault.text("range") != "24h" {
		t.Errorf("the default range is %s, want 24h", byDefault.text("range"))
	}
}

func TestChecksSinceATimeAreReturned(t *testing.T) {
	full := programs.shared.as(t, "full")
	checks := "/v1/monitors/" + full.id(t, "/v1/monitors") + "/checks"
	day := full.get(t, checks).array(t)
	hour := full.get(t, checks+"?since="+url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339))).array(t)
	if len(day) <= len(hour) || len(hour) == 0 {
		t.Errorf("%d checks of a day, %d of an hour", len(day), len(hour))
	}
	inclusive := full.get(t, checks+"?since="+day[0].text("checkedAt")).array(t)
	if len(inclusive) == 0 {
		t.Error("since is not inclusive")
	}
	if future := full.get(t, checks+"?since=2999-01-01T00:00:00Z").array(t); len(future) != 0 {
		t.Errorf("%d checks since a time in the future, want 0", len(future))
	}
}

func TestPagesOfCommandsAreComplete(t *testing.T) {
	full := programs.shared.as(t, "full")
	var server string
	var total float64
	for _, s := range full.get(t, "/v1/servers").array(t) {
		if n := full.get(t, "/v1/servers/"+s.text("id")+"/commands").object(t)["total"].(float64); n > total {
			server, total = s.text("id"), n
		}
	}
	if total < 150 {
		t.Fatalf("the longest history has %v entries", total)
	}
	var walked []object
	for page := 1; ; page++ {
		p := full.get(t, fmt.Sprintf("/v1/servers/%s/commands?page=%d&pageSize=40", server, page)).object(t)
		if p["total"] != total || p["page"] != float64(page) || p["pageSize"] != 40.0 {
			t.Errorf("page %d: total %v, page %v, pageSize %v", page, p["page"], p["total"], p["pageSize"])
		}
		if len(p.items("items")) == 0 {
			break
		}
		walked = append(walked, p.items("items")...)
	}
	if len(walked) != int(total) || len(byID(walked)) != int(total) {
		t.Errorf("%d entries, %d distinct, want %v", len(walked), len(byID(walked)), total)
	}
	ordered(t, "commands", walked, func(a, b object) int { return cmp.Compare(b.text("createdAt"), a.text("createdAt")) })
}
