package docs

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"opsgate/cmd/internal/test/devtest"
	"opsgate/gateway/openapi"
	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
)

const (
	repository = "../../../.."
	guides     = repository + "/gateway/apidocs/guides"
)

// An example is a fenced block with a title in a guide. The title is the file name of a complete
// program, or "GET /v1/…" for a response.
type example struct {
	guide, title, text string
}

var fences = regexp.MustCompile("(?ms)^```\\w* title=\"([^\"]+)\"\n(.*?\n)```$")

// blocks returns the examples of all guides.
func blocks(t *testing.T) (list []example) {
	t.Helper()
	files, err := filepath.Glob(guides + "/*.md")
	testkit.Must(t, err)
	for _, file := range files {
		guide := strings.TrimSuffix(filepath.Base(file), ".md")
		for _, block := range fences.FindAllStringSubmatch(readGuide(t, guide), -1) {
			list = append(list, example{guide: guide, title: block[1], text: block[2]})
		}
	}
	if len(list) == 0 {
		t.Fatal("no guide has an example")
	}
	return list
}

func readGuide(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(guides, name+".md"))
	testkit.Must(t, err)
	return string(text)
}

// interpreter returns the command that runs the file.
func interpreter(t *testing.T, file string) []string {
	t.Helper()
	switch filepath.Ext(file) {
	case ".py":
		return []string{testkit.Find(t, python), file}
	case ".sh":
		testkit.Find(t, "curl")
		testkit.Find(t, "jq")
		return []string{testkit.Find(t, "bash"), file}
	case ".mts":
		testkit.SkipIfShort(t)
		dir := filepath.Dir(file)
		testkit.Must(t, os.Symlink(testkit.Find(t, npm), filepath.Join(dir, "node_modules")))
		run(t, dir, testkit.Find(t, "node"), testkit.Find(t, npm+"/typescript/bin/tsc"), "--noEmit", "--strict", "--skipLibCheck",
			"--target", "es2023", "--module", "nodenext", "--typeRoots", testkit.Find(t, npm+"/@types"), "--types", "node", file)
		return []string{"node", "--import", testkit.Find(t, npm+"/tsx/dist/loader.mjs"), file} // tsx itself would be a second process
	}
	testkit.SkipIfShort(t)
	program := strings.TrimSuffix(file, ".go")
	run(t, repository, "go", "build", "-o", program, file) // in the module, which has the library of webhooks
	return []string{program}
}

// write stores the program with the base URL in place of that of the documentation.
func (e example) write(t *testing.T, baseURL string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), e.title)
	write(t, file, strings.ReplaceAll(e.text, openapi.PlaceholderURL, baseURL))
	return file
}

// The client of each language sends 20 reads and opens one incident. It stays within the limits,
// repeats what is disturbed, and opens the incident once. Of the faults of this seed, the last cuts
// the connection after the incident is opened. It repeats a request that is denied more often than
// it makes attempts.
func TestClientsOfTheGuideRateLimits(t *testing.T) {
	for _, e := range blocks(t) {
		if e.guide != "rate-limits" || strings.Contains(e.title, " ") {
			continue
		}
		t.Run(e.title, func(t *testing.T) {
			t.Parallel()
			s := start(t, "rate_limit: {limits: [{requests: 10, per: 1s}]}\n", "--disturb=20%", "--seed=908")
			p := &program{T: t, system: s, file: e.write(t, s.BaseURL)}
			sent := step{token: "full", prints: `(?s)\A1 .*\n20 \S+\nopened \S+\n\z`}
			p.run(sent)
			testkit.Eventually(t, "the log has the faults of the seed", func() bool { return strings.Count(s.Log.String(), "msg=disturbed") == 4 })
			list := string(s.send(t, http.MethodGet, "incidents:read", "/v1/incidents?limit=10", ""))
			if n := strings.Count(list, `"Test of a client"`); n != 1 {
				t.Errorf("the incident was opened %d times", n)
			}
			// Without the answer that is cut, a client does not know that its limit is reached.
			denied := regexp.MustCompile(`(?m)^opsgate_http_requests_total\{.*status="429"\} .*$`)
			if got := denied.FindAllString(s.metrics(t), -1); len(got) > 1 || len(got) == 1 && !strings.HasSuffix(got[0], " 1") {
				t.Errorf("it exceeded its limit: %q", got)
			}
			p.disturbed().run(sent)
		})
	}
}

// TestResponsesInGuides compares the responses in the guides with what the API returns to the same
// request: the same fields of the same types.
func TestResponsesInGuides(t *testing.T) {
	system := start(t, devtest.HighLimits)
	for _, e := range blocks(t) {
		method, path, ok := strings.Cut(e.title, " ")
		if !ok {
			continue
		}
		var want, got any
		decode(t, []byte(e.text), &want)
		decode(t, system.send(t, method, "full", path, ""), &got)
		if !reflect.DeepEqual(shape(want), shape(got)) {
			t.Errorf("%s: %s has another form: %v", e.guide, e.title, shape(got))
		}
	}
}

// shape replaces each value by its type; a list has the shape of its first element.
func shape(value any) any {
	switch value := value.(type) {
	case map[string]any:
		fields := make(map[string]any)
		for name, field := range value {
			fields[name] = shape(field)
		}
		return fields
	case []any:
		if len(value) == 0 {
			return []any{}
		}
		return []any{shape(value[0])}
	}
	return reflect.TypeOf(value)
}

// The changelog has what the guide of versions promises.
func TestChangelogHasTheVersionAndDeprecatedOperations(t *testing.T) {
	var document struct{ Info struct{ Version string } }
	testkit.Must(t, json.Unmarshal(openapi.JSON(), &document))
	changelog := readGuide(t, "changelog")
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
