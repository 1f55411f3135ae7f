package rehearsal

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/gateway/openapi"
)

func FuzzAddFields(f *testing.F) {
	f.Add(`{"a":[{"b":"}\"{"},{}],"c":null}`)
	f.Fuzz(func(t *testing.T, body string) {
		var before, after any
		if json.Unmarshal([]byte(body), &before) != nil {
			return
		}
		if err := json.Unmarshal(addFields([]byte(body)), &after); err != nil {
			t.Fatalf("%v in %s", err, addFields([]byte(body)))
		}
		removeField(t, after)
		if !strings.Contains(body, "rehearsalNewField") && !reflect.DeepEqual(before, after) {
			t.Errorf("%s became %s", body, addFields([]byte(body)))
		}
	})
}

func removeField(t *testing.T, value any) {
	t.Helper()
	switch v := value.(type) {
	case map[string]any:
		if _, ok := v["rehearsalNewField"]; !ok {
			t.Errorf("an object lacks the field: %v", v)
		}
		delete(v, "rehearsalNewField")
		for _, element := range v {
			removeField(t, element)
		}
	case []any:
		for _, element := range v {
			removeField(t, element)
		}
	}
}

func TestAddValues(t *testing.T) {
	for _, test := range []struct{ path, body, want string }{
		{"/v1/me", `{"scopes":[],"a":"b"}`, `{"scopes":["rehearsal:read"],"a":"b"}`},
		{"/v1/me", `{"scopes":["audit:read","servers:read"]}`, `{"scopes":["audit:read","rehearsal:read","servers:read"]}`},
		{"/v1/monitors", `[{"name":"\"type\":\"http\"","type":"tcp"},{"type":"dns"}]`, `[{"name":"\"type\":\"http\"","type":"rehearsal"},{"type":"dns"}]`},
		{"/v1/monitors", `[]`, `[]`},
		{"/v1/audit", `{"items":[{"actionType":"a\"b","resourceType":"c"}]}`, `{"items":[{"actionType":"rehearsal.performed","resourceType":"rehearsal"}]}`},
		{"/v1/servers/1/commands", `{"items":[{"source":"manual","status":"succeeded"}]}`, `{"items":[{"source":"rehearsal","status":"rehearsal"}]}`},
		{"/v1/status-pages", `[{"visibility":"public"}]`, `[{"visibility":"rehearsal"}]`},
		{"/v1/status-pages/1", `{"visibility":"public"}`, `{"visibility":"rehearsal"}`},
		{"/v1/status-pages/1/incidents", `[{"status":"resolved"}]`, `[{"status":"resolved"}]`},
		{"/v1/servers/1", `{"status":"x"}`, `{"status":"x"}`},
	} {
		if got := string(addValues([]byte(test.body), openSets(test.path))); got != test.want {
			t.Errorf("%s: got %s, want %s", test.path, got, test.want)
		}
	}
}

// The rehearsal changes exactly the sets that the description calls open. Errors are not changed.
func TestOpenSetsAreThoseOfTheDescription(t *testing.T) {
	document, err := openapi.Read(openapi.YAML())
	testkit.Must(t, err)
	got := make(map[string]bool)
	for _, schema := range document.Components.Schemas {
		for _, field := range schema.Value.Properties {
			values := field.Value
			if values.Items != nil {
				values = *values.Items
			}
			name := schema.Name
			if values.Known != nil && name != "ErrorBody" && !strings.HasPrefix(name, "Forbidden") && !strings.HasPrefix(name, "Webhook") {
				got[name+"."+field.Name] = true
			}
		}
	}
	want := make(map[string]bool)
	for name, path := range map[string]string{
		"TokenIdentity": "/v1/me", "Monitor": "/v1/monitors", "Command": "/v1/servers/1/commands", "AuditEntry": "/v1/audit",
		"StatusPage": "/v1/status-pages", "StatusPageWithComponents": "/v1/status-pages/1",
	} {
		for _, field := range openSets(path) {
			want[name+"."+field] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the description has %v, the rehearsal %v", got, want)
	}
}
