package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/test/devtest"
	"opsgate/gateway/baseurl"
)

const guides = "../../../../gateway/apidocs/guides"

// An example is a fenced block with a title in a guide. The title is the file name of a complete program, or "GET /v1/…" for a response.
type example struct {
	guide, language, title, text string
}

var fences = regexp.MustCompile("(?ms)^```(\\w*)(?: title=\"([^\"]+)\")?\n(.*?\n)```$")

// blocks returns the fenced blocks of all guides.
func blocks(t *testing.T) (list []example) {
	t.Helper()
	for guide, text := range readGuides(t) {
		for _, block := range fences.FindAllStringSubmatch(text, -1) {
			list = append(list, example{guide: guide, language: block[1], title: block[2], text: block[3]})
		}
	}
	return list
}

// readGuides returns the guides by their slugs.
func readGuides(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(guides + "/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no guides in %s: %v", guides, err)
	}
	texts := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		texts[strings.TrimSuffix(filepath.Base(file), ".md")] = string(text)
	}
	return texts
}

func (e example) isProgram() bool { return e.title != "" && !strings.Contains(e.title, " ") }

// A program is a program of a guide in a directory of its own.
type program struct {
	*testing.T

	file   string // path
	system system
}

// run runs the program with a demo token, and returns what it prints.
func (p *program) run(token string, arguments ...string) string {
	p.Helper()
	return p.runWith([]string{"OPSCTL_TOKEN=" + p.system.Tokens[token]}, arguments...)
}

func (p *program) runWith(variables []string, arguments ...string) string {
	p.Helper()
	command := append(interpreter(p.T, p.file), arguments...)
	output, stderr, err := runIn(p.T, filepath.Dir(p.file), variables, command...)
	if err != nil {
		p.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, output, stderr)
	}
	return output
}

// interpreter returns the command that runs the file.
func interpreter(t *testing.T, file string) []string {
	t.Helper()
	switch filepath.Ext(file) {
	case ".py":
		return []string{testkit.Find(t, "python3"), file}
	case ".sh":
		testkit.Find(t, "curl")
		testkit.Find(t, "jq")
		return []string{testkit.Find(t, "bash"), file}
	case ".go":
		testkit.SkipIfShort(t)
		return []string{"go", "run", file}
	case ".mts":
		testkit.SkipIfShort(t)
		return []string{testkit.Find(t, "node"), testkit.Find(t, npm+"/tsx/dist/cli.mjs"), file}
	}
	t.Fatalf("%s: no interpreter is known for it", file)
	return nil
}

// write stores the program with the base URL in place of that of the documentation.
func (e example) write(t *testing.T, dir, baseURL string) string {
	t.Helper()
	if !strings.Contains(e.text, baseurl.Placeholder) {
		t.Errorf("%s/%s does not call %s", e.guide, e.title, baseurl.Placeholder)
	}
	file := filepath.Join(dir, e.title)
	write(t, file, strings.ReplaceAll(e.text, baseurl.Placeholder, baseURL))
	return file
}

// TestProgramsOfGuides runs each program of the guides, and checks what it did.
func TestProgramsOfGuides(t *testing.T) {
	limited, unlimited := startBoth(t)
	checks := programChecks()
	var waiting sync.WaitGroup // programs that mostly wait run beside the others, whatever -parallel is
	defer waiting.Wait()
	for _, example := range blocks(t) {
		if !example.isProgram() || example.guide == webhooksGuide {
			continue
		}
		name := example.guide + "/" + example.title
		check, ok := checks[name]
		if !ok {
			t.Errorf("%s: no check runs this program", name)
			continue
		}
		delete(checks, name)
		if check.limited {
			waiting.Go(func() { t.Run(name, func(t *testing.T) { check.start(t, example, limited) }) })
		} else {
			t.Run(name, func(t *testing.T) { check.start(t, example, unlimited) })
		}
	}
	if len(checks) > 0 {
		t.Errorf("no guide has these programs: %v", slices.Sorted(maps.Keys(checks)))
	}
}

// start runs the program of the example against the system.
func (c programCheck) start(t *testing.T, e example, s system) {
	t.Helper()
	url := s.BaseURL
	if c.through != nil {
		url = c.through(t, s)
	}
	c.run(&program{T: t, system: s, file: e.write(t, t.TempDir(), url)})
}

// startBoth starts a system with the default limits, or twice as high ones in short tests, and one whose limits no test reaches.
func startBoth(t *testing.T) (limited, unlimited system) {
	t.Helper()
	perSecond := 3
	if testing.Short() {
		perSecond = 6
	}
	limited = start(t, fmt.Sprintf("rate_limit: {limits: [{requests: %d, per: 1s}, {requests: 5000, per: 1h}]}\n", perSecond))
	return limited, start(t, devtest.HighLimits)
}

// TestResponsesInGuides compares the responses in the guides with what the API returns to the same request: the same fields of the same types.
func TestResponsesInGuides(t *testing.T) {
	system := start(t, devtest.HighLimits)
	found := 0
	for _, example := range blocks(t) {
		method, path, ok := strings.Cut(example.title, " ")
		if !ok {
			continue
		}
		found++
		var want any
		if err := json.Unmarshal([]byte(example.text), &want); err != nil {
			t.Errorf("%s: %s: %v", example.guide, example.title, err)
			continue
		}
		var body any
		decode(t, system.send(t, method, "full", path, ""), &body)
		if got := shape(body); !reflect.DeepEqual(shape(want), got) {
			t.Errorf("%s: %s has another form: %v", example.guide, example.title, got)
		}
	}
	if found == 0 {
		t.Error("no guide shows a response")
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

// lines returns the lines of the output.
func lines(output string) []string { return strings.Split(strings.TrimSpace(output), "\n") }

// firstWords returns the first word of each line.
func firstWords(output string) (words []string) {
	for _, line := range lines(output) {
		if all := strings.Fields(line); len(all) > 0 {
			words = append(words, all[0])
		}
	}
	return words
}

// decode decodes JSON or fails the test.
func decode(t *testing.T, text []byte, value any) {
	t.Helper()
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(value); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}
