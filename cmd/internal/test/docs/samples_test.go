package docs

import (
	"strings"
	"testing"

	"opsgate/cmd/internal/test/devtest"
	"opsgate/gateway/apidocs/samples"
	"opsgate/gateway/openapi"
	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
)

// Every sample runs as a reader would run it, but with the address of opsdev, and prints the
// recorded response. go test -short runs three operations, in the languages that are not compiled.
func TestSamplesRun(t *testing.T) {
	s := start(t, devtest.HighLimits)
	operations := readsFirst()
	if testing.Short() {
		operations = []openapitest.Operation{operations[0], operations[len(operations)/2], operations[len(operations)-1]}
	}
	commands := make(map[string]func(string) []string)
	for _, l := range samples.Languages() {
		dir := t.TempDir() // until the end of this test, not of the subtest
		t.Run(l.ID, func(t *testing.T) {
			commands[l.ID] = build(t, l.ID, dir, s.BaseURL, examples(operations))
		})
	}
	for _, o := range operations { // then the languages, so that no write of one changes what another reads
		for _, l := range samples.Languages() {
			command, built := commands[l.ID]
			if !built {
				continue
			}
			t.Run(o.ID+"/"+l.ID, func(t *testing.T) {
				out, stderr, err := runIn(t, "", []string{"OPSCTL_TOKEN=" + s.Tokens["full"]}, command(o.ID)...)
				if err != nil || stderr != "" {
					t.Fatalf("%v\n%s", err, stderr)
				}
				record, _ := samples.Answer(o.ID)
				_, want, _ := strings.Cut(record, "\n\n")
				if got := shorten(t, []byte(out)) + "\n"; masked(o.Method, got) != masked(o.Method, want) {
					t.Errorf("got\n%s\nthe record\n%s", got, want)
				}
			})
		}
	}
}

func examples(operations []openapitest.Operation) map[string]samples.Request {
	requests := make(map[string]samples.Request)
	for _, o := range operations {
		requests[o.ID] = samples.Requests()[o.ID]
	}
	return requests
}

// build builds the samples of the requests, with another base URL, in a directory.
func build(t *testing.T, language, dir, baseURL string, requests map[string]samples.Request) func(string) []string {
	t.Helper()
	tools := toolchains()[language]
	if tools.compiles {
		testkit.SkipIfShort(t)
	}
	for _, program := range tools.programs {
		testkit.Find(t, program)
	}
	code := make(map[string]string)
	for name, r := range requests {
		code[name] = strings.ReplaceAll(samples.Render(language, r), openapi.PlaceholderURL, baseURL)
	}
	return tools.build(t, dir, code)
}
