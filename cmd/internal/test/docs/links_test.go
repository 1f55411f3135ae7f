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

// operations returns the tag slug of each operation by its id.
func operations(t *testing.T) map[string]string {
	t.Helper()
	document, err := openapi.Read(openapi.YAML())
	testkit.Must(t, err)
	tags := make(map[string]string)
	for _, o := range document.Operations {
		tags[o.ID] = strings.ReplaceAll(strings.ToLower(o.Tags[0]), " ", "-")
	}
	return tags
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

var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	sections = regexp.MustCompile(`(?m)^## (.+)$`)
)

// TestLinksInGuides checks that every link leads to a guide, an operation, an error or the description, or to another site.
func TestLinksInGuides(t *testing.T) {
	texts := readGuides(t)
	places := []string{"/openapi.json", "/openapi.yaml", "/llms.txt", "/llms-full.txt", "/docs/", "/docs/errors/", "/docs/schemas/#WebhookMessage",
		"https://www.standardwebhooks.com/", "https://modelcontextprotocol.io"}
	for id, tag := range operations(t) {
		places = append(places, "/docs/reference/"+tag+"/#"+id)
	}
	for code := range codes(t) {
		places = append(places, "/docs/errors/#"+code)
	}
	for slug := range texts {
		places = append(places, "/docs/guides/"+slug+"/")
	}
	for slug, text := range texts {
		for _, link := range links.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			target := link[1]
			if anchor, ok := strings.CutPrefix(target, "#"); ok && strings.Contains(text, "\n## "+anchor+"\n") {
				continue
			}
			if !strings.HasPrefix(target, "https://www.rfc-editor.org/rfc/") && !slices.Contains(places, target) {
				t.Errorf("%s links to %s, which does not exist", slug, target)
			}
		}
	}
}

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
