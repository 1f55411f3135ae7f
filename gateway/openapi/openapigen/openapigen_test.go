package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"opsgate/internal/testkit"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	const root = "../../.."
	files, err := generate(root)
	testkit.Must(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		testkit.Must(t, err)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs from the output for %s: run `make generate`\n%s", name, sourceFile, diff)
		}
	}
}

func TestDeclaredResponsesAndHeadersAreKept(t *testing.T) {
	document := parse(t, `
paths:
  /v1/x:
    get:
      description: |
        Returns x.
      x-required-scope: x:read
      responses:
        "200": {description: The x., headers: {ETag: {description: own}}}
        "504": {description: own}
`)
	if _, err := complete(document); err != nil {
		t.Fatal(err)
	}
	responses := get(get(get(get(document, "paths"), "/v1/x"), "get"), "responses")
	if got := get(get(responses, "504"), "description"); got == nil || got.Value != "own" {
		t.Error("the operation's own response 504 was replaced")
	}
	headers := get(get(responses, "200"), "headers")
	if got := get(get(headers, "ETag"), "description"); got == nil || got.Value != "own" || get(headers, "X-Request-Id") == nil {
		t.Error("the operation's own header was replaced, or the common headers are missing")
	}
}

func TestOperationWithoutRequiredKeysIsRejected(t *testing.T) {
	for _, missing := range []string{"x-required-scope: x", "description: x", "responses: {\"200\": {description: x}}"} {
		text := "paths:\n  /v1/x:\n    get:\n      x-required-scope: x\n      description: x\n      responses: {\"200\": {description: x}}\n"
		_, err := complete(parse(t, strings.Replace(text, "      "+missing+"\n", "", 1)))
		if err == nil || !strings.Contains(err.Error(), "get /v1/x") {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

func TestReadmeWithoutMarksIsRejected(t *testing.T) {
	if _, err := replaceTable([]byte("# opsgate\n"), nil); err == nil {
		t.Error("accepted")
	}
}

func parse(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var document yaml.Node
	testkit.Must(t, yaml.Unmarshal([]byte(text), &document))
	return document.Content[0]
}

func TestResponsesGetTheHeadersOfTheirStatus(t *testing.T) {
	document := parse(t, `
paths: {}
components:
  responses:
    Unauthorized: {description: x, headers: {WWW-Authenticate: {description: own}}}
    Conflict: {description: x}
    Timeout: {description: x}
`)
	if _, err := complete(document); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"Unauthorized": {"X-Request-Id", "Cache-Control", "Link", "WWW-Authenticate"},
		"Conflict":     {"X-Request-Id", "Cache-Control", "Link", "RateLimit-Policy", "RateLimit"},
		"Timeout":      {"X-Request-Id", "Cache-Control", "Link", "RateLimit-Policy", "RateLimit"},
	} {
		var got []string
		for header := range entries(get(get(get(get(document, "components"), "responses"), name), "headers")) {
			got = append(got, header)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, err := complete(parse(t, "components: {responses: {Unknown: {description: x}}}")); err == nil || !strings.Contains(err.Error(), "Unknown") {
		t.Errorf("a response without a known status: %v", err)
	}
}

func TestAllOfIsMerged(t *testing.T) {
	document := parse(t, `
components:
  schemas:
    Base: {type: object, description: x, required: [a], properties: {a: {type: string, description: x}}}
    Larger:
      description: x
      allOf:
        - $ref: '#/components/schemas/Base'
        - {type: object, required: [b], properties: {b: {type: string, description: x}}}
`)
	if _, err := complete(document); err != nil {
		t.Fatal(err)
	}
	var got any
	testkit.Must(t, get(get(get(document, "components"), "schemas"), "Larger").Decode(&got))
	text := map[string]any{"type": "string", "description": "x"}
	want := map[string]any{
		"description": "x", "type": "object", "required": []any{"a", "b"}, "properties": map[string]any{"a": text, "b": text},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestKnownValuesAreDescribed(t *testing.T) {
	schema := parse(t, "{type: string, description: Kind., x-known-values: [a, b]}")
	describeKnownValues(schema)
	var got any
	testkit.Must(t, schema.Decode(&got))
	want := map[string]any{
		"type": "string", "description": "Kind. Known values: `a`, `b`. Values may be added.",
		"x-known-values": []any{"a", "b"}, "examples": []any{"a"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Pages and generators show the first example of a body, so it is short. Readers execute it, so it
// sends no notifications if the operation has that choice.
func TestFirstExampleOfABodyHasOnlyRequiredFields(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "..", sourceFile))
	testkit.Must(t, err)
	document := parse(t, string(source))
	schemas := get(get(document, "components"), "schemas")
	checked := 0
	for path, item := range entries(get(document, "paths")) {
		media := get(get(get(get(item, "post"), "requestBody"), "content"), "application/json")
		for _, example := range entries(get(media, "examples")) {
			var required, fields []string
			ref := get(get(media, "schema"), "$ref").Value
			testkit.Must(t, get(get(schemas, strings.TrimPrefix(ref, schemaRef)), "required").Decode(&required))
			for field := range entries(get(example, "value")) {
				if field != "notifySubscribers" {
					fields = append(fields, field)
				}
			}
			if diff := cmp.Diff(required, fields); diff != "" {
				t.Errorf("%s: the first example: %s", path, diff)
			}
			checked++
			break
		}
	}
	if checked != 2 {
		t.Errorf("%d examples were checked", checked)
	}
}
