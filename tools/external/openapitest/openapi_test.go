package openapitest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"opsgate/internal/testkit"
)

const documentFile = "../../../gateway/openapi/openapi.yaml"

type object = map[string]any

// A document is a copy of the current document that a test modifies.
type document struct {
	t *testing.T
	object
}

func readDocument(t *testing.T) document {
	t.Helper()
	text, err := os.ReadFile(documentFile)
	testkit.Must(t, err)
	d := document{t: t}
	testkit.Must(t, yaml.Unmarshal(text, &d.object))
	return d
}

// write writes the document to a new file.
func (d document) write() (file string) {
	d.t.Helper()
	text, err := yaml.Marshal(d.object)
	testkit.Must(d.t, err)
	file = filepath.Join(d.t.TempDir(), "openapi.yaml")
	testkit.Must(d.t, os.WriteFile(file, text, 0o600))
	return file
}

// at returns the object at a path of keys.
func (d document) at(path ...string) object {
	d.t.Helper()
	found := d.object
	for _, key := range path {
		next, ok := found[key].(object)
		if !ok {
			d.t.Fatalf("%v: there is no object %s", path, key)
		}
		found = next
	}
	return found
}

func (d document) get(path string, more ...string) object {
	d.t.Helper()
	return d.at(append([]string{"paths", path, "get"}, more...)...)
}

func (d document) schema(name string) object {
	d.t.Helper()
	return d.at("components", "schemas", name)
}

func (d document) properties(schema string) object {
	d.t.Helper()
	return d.at("components", "schemas", schema, "properties")
}

func (d document) property(schema, name string) object {
	d.t.Helper()
	return d.at("components", "schemas", schema, "properties", name)
}

// removeFrom removes a value from a list that has it.
func (d document) removeFrom(in object, list, value string) {
	d.t.Helper()
	values, _ := in[list].([]any)
	i := slices.Index(values, any(value))
	if i < 0 {
		d.t.Fatalf("%s is not in %v", value, values)
	}
	in[list] = slices.Delete(slices.Clone(values), i, i+1)
}

// add adds a value to a list, which may be absent.
func add(in object, list string, value any) {
	values, _ := in[list].([]any)
	in[list] = append(slices.Clone(values), value)
}

// queryParameter returns a new parameter of an operation.
func queryParameter(required bool) object {
	return object{"name": "sort", "in": "query", "required": required, "description": "Order.", "schema": object{"type": "string"}}
}

// newField returns the schema of a new field.
func newField() object { return object{"type": "string", "description": "New."} }

// deprecate returns a change that deprecates an operation until some days from now.
func deprecate(days int) func(document) {
	return func(d document) {
		o := d.get("/v1/server-groups")
		o["deprecated"] = true
		o["x-sunset"] = time.Now().AddDate(0, 0, days).Format(time.DateOnly)
	}
}

func removeOperation(d document) { delete(d.at("paths"), "/v1/server-groups") }

type refusal struct {
	before, change func(document)
	want           string
}

// refusedResponses returns changes of responses that break clients.
func refusedResponses() map[string]refusal {
	return map[string]refusal{
		"an operation is removed":                {nil, removeOperation, "api-path-removed"},
		"an operation is removed before its end": {deprecate(30), removeOperation, "api-path-removed-before-sunset"},
		"notice is too short":                    {nil, deprecate(30), "sunset"},
		"a field is removed": {nil, func(d document) {
			delete(d.properties("Server"), "os")
			d.removeFrom(d.schema("Server"), "required", "os")
		}, "response-required-property-removed"},
		"a field becomes optional": {nil, func(d document) {
			d.removeFrom(d.schema("Server"), "required", "os")
		}, "response-property-became-optional"},
		"a field becomes nullable": {nil, func(d document) {
			d.property("Server", "os")["type"] = []any{"string", "null"}
		}, "response-property-"},
		"a field changes its type": {nil, func(d document) {
			d.property("Server", "os")["type"] = "integer"
		}, "response-property-type-changed"},
		"a closed set grows": {nil, func(d document) {
			add(d.schema("MonitorStatus"), "enum", "paused")
		}, "response-property-enum-value-added"},
		"a header is removed": {nil, func(d document) {
			delete(d.get("/v1/servers", "responses", "200", "headers"), "ETag")
		}, "response-header-removed"},
	}
}

// refusedRequests returns changes of requests that break clients.
func refusedRequests() map[string]refusal {
	return map[string]refusal{
		"a value of a field is removed": {nil, func(d document) {
			d.removeFrom(d.schema("IncidentImpact"), "enum", "none")
		}, "request-property-enum-value-removed"},
		"a value of a parameter is removed": {nil, func(d document) {
			d.removeFrom(d.schema("MetricsRange"), "enum", "30d")
		}, "request-parameter-enum-value-removed"},
		"a new parameter is required": {nil, func(d document) {
			add(d.get("/v1/monitors"), "parameters", queryParameter(true))
		}, "new-required-request-parameter"},
		"a new field is required": {nil, func(d document) {
			d.properties("IncidentInput")["owner"] = newField()
			add(d.schema("IncidentInput"), "required", "owner")
		}, "new-required-request-property"},
		"a field of a request is removed": {nil, func(d document) {
			delete(d.properties("IncidentInput"), "componentIds")
		}, "request-property-removed"},
		"a parameter is removed": {nil, func(d document) {
			d.get("/v1/servers/{id}/commands")["parameters"] = []any{}
		}, "request-parameter-removed"},
		"a bound of a parameter is narrowed": {nil, func(d document) {
			d.at("components", "parameters", "Limit", "schema")["maximum"] = 50
		}, "request-parameter-max-decreased"},
	}
}

func TestGateRefusesChangesThatBreakClients(t *testing.T) {
	t.Parallel()
	cases := refusedResponses()
	maps.Copy(cases, refusedRequests())
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := runGate(t, c.before, c.change)
			if err == nil || !strings.Contains(output, c.want) {
				t.Errorf("%v, want a problem %s:\n%s", err, c.want, output)
			}
		})
	}
}

func TestGateAcceptsCompatibleChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, change func(document) }{
		"nothing":                        {nil, func(document) {}},
		"a field is added to a response": {nil, func(d document) { d.properties("Server")["region"] = newField() }},
		"a required field is added to a response": {nil, func(d document) {
			d.properties("Server")["region"] = newField()
			add(d.schema("Server"), "required", "region")
		}},
		"an optional field is added to a request": {nil, func(d document) { d.properties("IncidentInput")["owner"] = newField() }},
		"an optional parameter is added": {nil, func(d document) {
			add(d.get("/v1/monitors"), "parameters", queryParameter(false))
		}},
		"an operation is added": {nil, func(d document) {
			added := maps.Clone(d.get("/v1/monitors"))
			added["operationId"] = "v1ListAlerts"
			d.at("paths")["/v1/alerts"] = object{"get": added}
		}},
		"an open set grows": {nil, func(d document) {
			add(d.schema("Scope"), "x-known-values", "servers:write")
			add(d.property("ErrorBody", "code"), "x-known-values", "gone")
		}},
		"a description changes":                    {nil, func(d document) { d.schema("Server")["description"] = "A machine." }},
		"an operation is deprecated a year before": {nil, deprecate(400)},
		"an operation is removed after its end":    {deprecate(-1), removeOperation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if output, err := runGate(t, c.before, c.change); err != nil {
				t.Errorf("%v:\n%s", err, output)
			}
		})
	}
}

// runGate compares the document with a changed one. before changes both.
func runGate(t *testing.T, before, change func(document)) (output string, err error) {
	t.Helper()
	base, revision := readDocument(t), readDocument(t)
	if before != nil {
		before(base)
		before(revision)
	}
	change(revision)
	return run(t, "../../openapi-gate.sh", base.write(), revision.write())
}

func run(t *testing.T, name string, args ...string) (output string, err error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	return string(out), err
}

// Every own rule reports a document that violates it.
func TestLintReportsViolations(t *testing.T) {
	t.Parallel()
	testkit.Find(t, "../../npm/node_modules/.bin/spectral")
	d := readDocument(t)
	servers := d.get("/v1/servers")
	servers["operationId"] = "list_servers"
	delete(servers, "description")
	d.get("/v1/servers", "responses")["404"] = object{"description": "Not found."}
	add(servers, "parameters", object{"name": "X-Request-Id", "in": "header", "description": "An ID.", "schema": object{"type": "string"}})
	d.get("/v1/servers", "responses", "200", "content", "application/json")["schema"] = object{"type": "object", "properties": object{}}
	d.at("paths")["/v1/Server_Groups"] = object{"get": d.get("/v1/server-groups")}
	d.properties("Server")["last_seen"] = newField()
	delete(d.schema("MonitorStatus"), "type")
	d.schema("Scope")["enum"] = []any{"servers:read"}
	d.schema("Color")["allOf"] = []any{object{"type": "string"}}
	d.object["servers"] = []any{object{"url": "/"}}

	output, err := run(t, "../../openapi-lint.sh", d.write())
	if err == nil {
		t.Error("the document was accepted")
	}
	for _, rule := range []string{
		"operation-id-form", "paths-kebab-case", "properties-camel-case", "enum-has-type", "no-compositions", "errors-by-reference",
		"named-objects", "open-set-has-no-enum", "no-header-of-every-request-as-parameter", "server-is-the-placeholder",
		"operation-description", "no-invalid-media-type-examples", "operation-operationId-unique", // of the rule sets
	} {
		if !strings.Contains(output, rule) {
			t.Errorf("rule %s reports nothing", rule)
		}
	}
	if t.Failed() {
		t.Log(output)
	}
}
