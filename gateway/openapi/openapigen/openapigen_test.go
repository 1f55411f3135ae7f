package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	const root = "../../.."
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
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
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	return document.Content[0]
}
