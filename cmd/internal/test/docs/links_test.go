package docs

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/gateway/openapi"
	"opsgate/gateway/openapi/openapitest"
)

// A body is an error.
type body struct {
	Error   string            `json:"error"`
	Code    string            `json:"code"`
	Details map[string]string `json:"details,omitempty"`
}

var contractRows = regexp.MustCompile("(?m)^\\| (\\d{3}) \\| `(\\w+)` \\|")

// codes returns the status of each error code of the contract.
func codes(t *testing.T) map[string]string {
	t.Helper()
	contract, err := os.ReadFile("../../../../docs/integrate/contract.md")
	testkit.Must(t, err)
	statuses := make(map[string]string)
	for _, row := range contractRows.FindAllStringSubmatch(string(contract), -1) {
		statuses[row[2]] = row[1]
	}
	if len(statuses) == 0 {
		t.Fatal("the contract lists no code")
	}
	return statuses
}

// errorExamples returns the examples of errors in the OpenAPI document by code.
func errorExamples(t *testing.T) map[string][]body {
	t.Helper()
	examples := make(map[string][]body)
	var walk func(text json.RawMessage)
	walk = func(text json.RawMessage) {
		var example body
		if json.Unmarshal(text, &example) == nil && example.Error != "" && example.Code != "" {
			examples[example.Code] = append(examples[example.Code], example)
			return
		}
		var fields map[string]json.RawMessage
		var items []json.RawMessage
		_, _ = json.Unmarshal(text, &fields), json.Unmarshal(text, &items) // one of them, or neither for a plain value
		for _, value := range append(items, slices.Collect(maps.Values(fields))...) {
			walk(value)
		}
	}
	walk(openapi.JSON())
	return examples
}

var sections = regexp.MustCompile(`(?m)^## (.+)$`)

// TestChangelogHasTheVersionAndDeprecatedOperations checks the changelog, which the guide versioning promises.
func TestChangelogHasTheVersionAndDeprecatedOperations(t *testing.T) {
	var document struct{ Info struct{ Version string } }
	decode(t, openapi.JSON(), &document)
	changelog := readGuides(t)["changelog"]
	if !strings.Contains(changelog, "\n## "+document.Info.Version+"\n") {
		t.Errorf("it has no section %s", document.Info.Version)
	}
	_, deprecated, _ := strings.Cut(changelog, "\nDeprecated:\n")
	for _, o := range openapitest.Operations() {
		if o.Sunset != "" && !strings.Contains(deprecated, "#"+o.ID+")") {
			t.Errorf("%s is deprecated, and the changelog does not link it below Deprecated", o.ID)
		}
	}
}

// TestErrorsGuideDescribesEveryCode checks that each code has a section with its status, and responses that the description has too.
func TestErrorsGuideDescribesEveryCode(t *testing.T) {
	statuses, examples, text := codes(t), errorExamples(t), readGuides(t)["errors"]
	described := make(map[string]bool)
	for i, heading := range sections.FindAllStringSubmatchIndex(text, -1) {
		code := text[heading[2]:heading[3]]
		if i == 0 {
			continue // about all codes
		}
		if statuses[code] == "" {
			t.Errorf("the section %q is for no code of the contract", code)
		}
		described[code] = true
		section, _, _ := strings.Cut(text[heading[1]:], "\n## ")
		if !strings.HasPrefix(section, "\n\nStatus "+statuses[code]+".") || !strings.Contains(section, "\n**What to do:** ") {
			t.Errorf("%s: the section lacks the status or what to do", code)
		}
		checkBodies(t, code, section, examples[code])
	}
	for code, status := range statuses {
		if !described[code] {
			t.Errorf("no section for %s", code)
		}
		if !strings.Contains(text, "| "+status+" | [`"+code+"`](#"+code+") |") {
			t.Errorf("the table lacks %s %s", status, code)
		}
	}
}

// checkBodies checks that the section shows a response, and that each is an example of the description.
func checkBodies(t *testing.T, code, section string, examples []body) {
	t.Helper()
	blocks := fences.FindAllStringSubmatch(section, -1)
	if len(blocks) == 0 {
		t.Errorf("%s: the section shows no response", code)
	}
	for _, block := range blocks {
		var shown body
		decode(t, []byte(block[3]), &shown)
		if code == "method_not_allowed" && shown.Code == code { // no operation of the description has it
			continue
		}
		if !slices.ContainsFunc(examples, func(b body) bool { return reflect.DeepEqual(b, shown) }) {
			t.Errorf("%s: the description has no example %+v", code, shown)
		}
	}
}
