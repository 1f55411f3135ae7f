package systemtest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// operations are the 17 of the specification's part 4, with the scope that each needs.
var operations = []struct{ method, path, scope string }{
	{"GET", "/v1/me", ""},
	{"GET", "/v1/servers", "servers:read"},
	{"GET", "/v1/servers/{server}", "servers:read"},
	{"GET", "/v1/server-groups", "servers:read"},
	{"GET", "/v1/servers/{server}/metrics", "metrics:read"},
	{"GET", "/v1/servers/{server}/scheduled-commands", "scheduled-commands:read"},
	{"GET", "/v1/servers/{server}/commands", "commands:read"},
	{"GET", "/v1/monitors", "monitors:read"},
	{"GET", "/v1/monitors/{monitor}/checks", "monitors:read"},
	{"GET", "/v1/incidents", "incidents:read"},
	{"POST", "/v1/incidents", "incidents:write"},
	{"GET", "/v1/incidents/{incident}", "incidents:read"},
	{"POST", "/v1/incidents/{incident}/updates", "incidents:write"},
	{"GET", "/v1/status-pages", "status-pages:read"},
	{"GET", "/v1/status-pages/{page}", "status-pages:read"},
	{"GET", "/v1/status-pages/{page}/incidents", "status-pages:read"},
	{"GET", "/v1/audit", "audit:read"},
}

const (
	newIncident = `{"title":"Checkout is slow","status":"investigating","impact":"minor","message":"We are looking."}`
	newUpdate   = `{"status":"resolved","message":"Fixed."}`
)

func bodyOf(method, path string) string {
	switch {
	case method != http.MethodPost:
		return ""
	case strings.HasSuffix(path, "/updates"):
		return newUpdate
	}
	return newIncident
}

// ids returns one id of each kind of resource that the client's team has; the server's is of one with scheduled commands.
func ids(t *testing.T, c client) map[string]string {
	t.Helper()
	servers := c.get(t, "/v1/servers").array(t)
	scheduled := slices.IndexFunc(servers, func(s object) bool {
		return len(c.get(t, "/v1/servers/"+s.text("id")+"/scheduled-commands").array(t)) > 0
	})
	if scheduled < 0 {
		t.Fatal("no server has scheduled commands")
	}
	return map[string]string{
		"{server}":   servers[scheduled].text("id"),
		"{monitor}":  c.get(t, "/v1/monitors").array(t)[0].text("id"),
		"{incident}": c.get(t, "/v1/incidents").object(t).items("items")[0].text("id"),
		"{page}":     c.get(t, "/v1/status-pages").array(t)[0].text("id"),
	}
}

func fill(path string, ids map[string]string) string {
	for name, id := range ids {
		path = strings.ReplaceAll(path, name, id)
	}
	return path
}

func TestEveryOperationAnswers(t *testing.T) {
	full := programs.shared.as(t, "full")
	own := ids(t, full)
	for _, o := range operations {
		t.Run(o.method+" "+o.path, func(t *testing.T) {
			r := full.do(t, o.method, fill(o.path, own), bodyOf(o.method, o.path)).must(t, 200)
			if len(r.body) < 3 {
				t.Errorf("the demo data has nothing for it: %s", r.body)
			}
		})
	}
}

func TestNobodyWithoutAToken(t *testing.T) {
	own := ids(t, programs.shared.as(t, "full"))
	for _, name := range []string{"", "revoked"} {
		for _, o := range operations {
			r := programs.shared.as(t, name).do(t, o.method, fill(o.path, own), bodyOf(o.method, o.path))
			r.fails(t, 401, "unauthorized")
		}
	}
	malformed := client{system: programs.shared, token: "ops_live_nonsense", validator: validator(t)}
	malformed.get(t, "/v1/me").fails(t, 401, "unauthorized")
}

func TestEachScopeIsNeededAndEnough(t *testing.T) {
	own := ids(t, programs.shared.as(t, "full"))
	for _, o := range operations {
		for name := range programs.shared.Tokens {
			if !strings.Contains(name, ":") && name != "none" {
				continue
			}
			r := programs.shared.as(t, name).do(t, o.method, fill(o.path, own), bodyOf(o.method, o.path))
			if o.scope == "" || name == o.scope {
				r.must(t, 200)
				continue
			}
			if details := r.fails(t, 403, "forbidden"); details["required"] != o.scope || len(details) != 1 {
				t.Errorf("%s %s with %s: details %v", o.method, o.path, name, details)
			}
		}
	}
}

func TestAnotherTeamsResourcesAreNotFound(t *testing.T) {
	own := ids(t, programs.shared.as(t, "full"))
	other := programs.shared.as(t, "other_team")
	unknown := map[string]string{}
	for name := range own {
		unknown[name] = "00000000-0000-7000-8000-000000000000"
	}
	for _, o := range operations {
		if !strings.Contains(o.path, "{") {
			continue
		}
		foreign := other.do(t, o.method, fill(o.path, own), bodyOf(o.method, o.path))
		foreign.fails(t, 404, "not_found")
		never := other.do(t, o.method, fill(o.path, unknown), bodyOf(o.method, o.path))
		if string(never.body) != string(foreign.body) {
			t.Errorf("%s tells a foreign id from one that never was: %s, %s", o.path, foreign.body, never.body)
		}
	}
	for id := range byID(other.get(t, "/v1/servers").array(t)) {
		if byID(programs.shared.as(t, "full").get(t, "/v1/servers").array(t))[id] {
			t.Errorf("server %s is in two teams", id)
		}
	}
}

func TestATeamWithoutThePlan(t *testing.T) {
	for _, o := range operations {
		details := programs.shared.as(t, "no_plan").do(t, o.method, o.path, bodyOf(o.method, o.path)).fails(t, 403, "forbidden")
		if len(details) != 1 || details["requiredPlan"] != "ai" {
			t.Errorf("%s: details %v", o.path, details)
		}
	}
}

func TestMeTellsWhatTheTokenIs(t *testing.T) {
	me := programs.shared.as(t, "incidents:write").get(t, "/v1/me").object(t)
	if fmt.Sprint(me["scopes"]) != "[incidents:write]" {
		t.Errorf("scopes = %v", me["scopes"])
	}
	full, read := programs.shared.as(t, "full").get(t, "/v1/me").object(t), programs.shared.as(t, "read").get(t, "/v1/me").object(t)
	if full["teamId"] != me["teamId"] || full["tokenId"] == me["tokenId"] || len(full["scopes"].([]any)) != 9 || len(read["scopes"].([]any)) != 8 {
		t.Errorf("full = %v, read = %v", full, read)
	}
}

func byID(os []object) map[string]bool {
	found := make(map[string]bool, len(os))
	for _, o := range os {
		found[o.text("id")] = true
	}
	return found
}

// ordered fails unless the items are in order by the keys, compared as texts.
func ordered(t *testing.T, what string, items []object, before func(a, b object) int) {
	t.Helper()
	if len(items) < 2 {
		t.Errorf("%s: %d items say nothing of an order", what, len(items))
	}
	if !slices.IsSortedFunc(items, before) {
		t.Errorf("%s are out of order", what)
	}
}

func TestOrders(t *testing.T) {
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
	monitor := full.get(t, "/v1/monitors").array(t)[0].text("id")
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

func TestMetricRanges(t *testing.T) {
	full := programs.shared.as(t, "full")
	server := ids(t, full)["{server}"]
	for span, resolution := range map[string]string{"1h": "raw", "24h": "raw", "7d": "hourly", "30d": "hourly"} {
		m := full.get(t, "/v1/servers/"+server+"/metrics?range="+span).object(t)
		if m.text("range") != span || m.text("resolution") != resolution || len(m.items("points")) == 0 {
			t.Errorf("%s: range %q, resolution %q, %d points", span, m.text("range"), m.text("resolution"), len(m.items("points")))
		}
	}
	if byDefault := full.get(t, "/v1/servers/"+server+"/metrics").object(t); byDefault.text("range") != "24h" {
		t.Errorf("the default range is %s", byDefault.text("range"))
	}
}

func TestChecksSince(t *testing.T) {
	full := programs.shared.as(t, "full")
	checks := "/v1/monitors/" + ids(t, full)["{monitor}"] + "/checks"
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
		t.Errorf("the future has %d checks", len(future))
	}
}

func TestPagesOfCommands(t *testing.T) {
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
			t.Errorf("page %d says %v of %v, %v a page", page, p["page"], p["total"], p["pageSize"])
		}
		if len(p.items("items")) == 0 {
			break
		}
		walked = append(walked, p.items("items")...)
	}
	if len(walked) != int(total) || len(byID(walked)) != int(total) {
		t.Errorf("%d entries, %d of them different, want %v", len(walked), len(byID(walked)), total)
	}
	ordered(t, "commands", walked, func(a, b object) int { return cmp.Compare(b.text("createdAt"), a.text("createdAt")) })
}
