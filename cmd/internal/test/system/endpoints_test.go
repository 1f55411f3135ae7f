package system

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"opsgate/authn"
	"opsgate/gateway/openapi/openapitest"
)

// A call is a request to one operation.
type call struct {
	openapitest.Operation
	target string // its path with the ID of an existing resource
}

// calls returns a call of every operation in the OpenAPI document, on the resources of the client's
// team.
func calls(t *testing.T, c client) []call {
	t.Helper()
	operations := openapitest.Operations()
	all := make([]call, len(operations))
	for i, o := range operations {
		all[i] = call{o, c.target(t, o)}
	}
	return all
}

// target returns the path of an operation. {id} becomes the ID of the first resource in the list
// for which a GET returns data.
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
	full := shared.as(t, "full")
	for _, o := range calls(t, full) {
		t.Run(o.ID, func(t *testing.T) {
			if r := full.send(t, o).must(t, 200); len(r.body) <= len("[]") {
				t.Errorf("the demo data has no resource for this operation: %s", r.body)
			}
		})
	}
}

func TestEveryOperationNeedsAValidToken(t *testing.T) {
	all := calls(t, shared.as(t, "full"))
	for _, name := range []string{"", "revoked"} {
		for _, o := range all {
			shared.as(t, name).send(t, o).fails(t, 401, "unauthorized")
		}
	}
	malformed := client{system: shared, token: "ops_live_nonsense", validator: openapitest.New(t)}
	malformed.get(t, "/v1/me").fails(t, 401, "unauthorized")
}

func TestEveryOperationNeedsExactlyItsScope(t *testing.T) {
	tokens := []string{"none"}
	for _, scope := range authn.AllScopes() {
		tokens = append(tokens, string(scope))
	}
	for _, o := range calls(t, shared.as(t, "full")) {
		for _, name := range tokens {
			r := shared.as(t, name).send(t, o)
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
	other := shared.as(t, "other_team")
	for _, o := range calls(t, shared.as(t, "full")) {
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
	full, other := shared.as(t, "full"), shared.as(t, "other_team")
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
	for _, o := range calls(t, shared.as(t, "full")) {
		details := shared.as(t, "no_plan").send(t, o).fails(t, 403, "forbidden")
		if len(details) != 1 || details["requiredPlan"] != "ai" {
			t.Errorf("%s: details %v", o.ID, details)
		}
	}
}

func TestMeReturnsTheToken(t *testing.T) {
	me := shared.as(t, "incidents:write").get(t, "/v1/me").object(t)
	if fmt.Sprint(me["scopes"]) != "[incidents:write]" {
		t.Errorf("scopes = %v", me["scopes"])
	}
	all := authn.AllScopes()
	readOnly := slices.DeleteFunc(slices.Clone(all), func(s authn.Scope) bool { return s == authn.IncidentsWrite })
	full, read := shared.as(t, "full").get(t, "/v1/me").object(t), shared.as(t, "read").get(t, "/v1/me").object(t)
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
