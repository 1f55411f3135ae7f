package samples

import (
	"encoding/json"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"net/url"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
)

// TestRequestsAreThoseOfTheDocument checks that there is a valid request for each operation.
func TestRequestsAreThoseOfTheDocument(t *testing.T) {
	operations := openapitest.Operations()
	if len(operations) == 0 || len(Requests()) != len(operations) {
		t.Errorf("%d requests for %d operations", len(Requests()), len(operations))
	}
	queries := exampleQueries()
	for _, o := range operations {
		r, ok := Requests()[o.ID]
		if !ok || r.Method != o.Method || strings.Contains(r.Path, "{") || (r.Body == "") != (o.Body == "") || r.Idempotent() != (r.Body != "") {
			t.Errorf("%s: %+v", o.ID, r)
		}
		query, err := url.ParseQuery(r.Query)
		if err != nil {
			t.Errorf("%s: %v", o.ID, err)
		}
		for name := range query {
			if !strings.Contains(strings.Join(o.Query, "\n"), name+"=") {
				t.Errorf("%s has no query parameter %s", o.ID, name)
			}
		}
		delete(queries, o.ID)
	}
	if len(queries) > 0 {
		t.Errorf("queries without an operation: %v", queries)
	}
}

// Readers run the samples with an incident of their own, which may be on a public status page.
func TestSampleOfAnUpdateNotifiesNobody(t *testing.T) {
	if body := Requests()["v1AddIncidentUpdate"].Body; !strings.Contains(body, `"notifySubscribers":false`) {
		t.Errorf("the sample sends %s", body)
	}
}

func TestInvalidDocumentIsRefused(t *testing.T) {
	if got, err := readRequests([]byte(`openapi: [`)); err == nil {
		t.Error(got)
	}
}

func TestOperationWithoutAnExampleIsLeftOut(t *testing.T) {
	got, err := readRequests([]byte(`{"paths":{"/v1/x/{id}":{"get":{"parameters":[{"name":"id","in":"path"}]}}}}`))
	if err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestEverySampleHasWhatACallNeeds(t *testing.T) {
	for id, r := range Requests() {
		for _, l := range Languages() {
			sample := Render(l.ID, r)
			if !strings.Contains(sample, r.URL()) || !strings.Contains(sample, "OPSCTL_TOKEN") || !strings.Contains(sample, "Authorization") {
				t.Errorf("%s in %s:\n%s", id, l.Name, sample)
			}
			if strings.Contains(sample, "Idempotency-Key") != (r.Method == "POST") {
				t.Errorf("%s in %s: Idempotency-Key:\n%s", id, l.Name, sample)
			}
			if strings.Contains(sample, "\n\n\n") || strings.Contains(sample, " \n") || !strings.HasSuffix(sample, "\n") {
				t.Errorf("%s in %s has superfluous white space:\n%q", id, l.Name, sample)
			}
		}
	}
}

func TestGoSamplesAreFormatted(t *testing.T) {
	for id, r := range Requests() {
		sample := Render("go", r)
		if formatted, err := format.Source([]byte(sample)); err != nil || string(formatted) != sample {
			t.Errorf("%s: %v\n%s", id, err, formatted)
		}
	}
}

func TestRenderPanicsOnWhatIsNotARequest(t *testing.T) {
	for _, test := range []struct {
		language string
		request  Request
	}{
		{"cobol", Request{Method: "GET", Path: "/v1/me"}},
		{"go", Request{Method: "POST", Path: "/v1/incidents", Body: "{"}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no panic for %+v", test)
				}
			}()
			Render(test.language, test.request)
		}()
	}
}

// Package cmd/internal/test/docs runs samples with such bodies in every language; here a property
// covers the two whose literals are read without a new process for each value.
func TestBodiesSurviveTheirLiterals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := drawBody(t)
		r := Request{Method: "POST", Path: "/v1/incidents", Body: body}
		sameJSON(t, body, goBody(t, Render("go", r)))
		_, heredoc, _ := strings.Cut(Render("curl", r), "<<'JSON'\n")
		text, end, ok := strings.Cut(heredoc, "\nJSON\n")
		if !ok || end != "" {
			t.Errorf("the here-document ends early:\n%s", heredoc)
		}
		sameJSON(t, body, text)
	})
}

// drawBody draws an object with strings that are hard to quote.
func drawBody(t *rapid.T) string {
	hard := rapid.SampledFrom([]string{
		"'", `"`, "`", `\`, `\\`, `\"`, "$HOME", "${x}", "$(id)", "\n", "\r\n", "\t", "\x00", "\x7f", `"""`, "'''", `\u0022`, `\n`, "//", "#{x}", "%s",
		"\nJSON\n", "é", "日本", "😀", "\u2028", "\ufeff", "\u202e", "true", ": null", "</script>", "{{.}}", " ", "a",
	})
	text := rapid.OneOf(rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOf(hard).Draw(t, "parts"), "") }), rapid.String())
	body, err := json.Marshal(map[string]any{
		"title": text.Draw(t, "title"), "list": rapid.SliceOf(text).Draw(t, "list"), text.Draw(t, "key"): 1.5, "yes": true, "no": false, "none": nil,
	})
	testkit.Must(t, err)
	return string(body)
}

// goBody returns the first raw string of a Go program.
func goBody(t *rapid.T, program string) string {
	file, err := parser.ParseFile(token.NewFileSet(), "sample.go", program, 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, program)
	}
	found := ""
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(literal.Value, "`") && found == "" {
			if found, err = strconv.Unquote(literal.Value); err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
	return found
}

func sameJSON(t interface{ Fatalf(string, ...any) }, want, got string) {
	var wanted, gotten any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatalf("%v", err)
	}
	if err := json.Unmarshal([]byte(got), &gotten); err != nil || !reflect.DeepEqual(wanted, gotten) {
		t.Fatalf("got %v\n%s\nwant\n%s", err, got, want)
	}
}

func TestURLsAreOneWordOfTheShell(t *testing.T) {
	const nasty = `/v1/it's?$HOME & "x" \ *`
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+quoteShell(nasty)).Output()
	if err != nil || string(out) != nasty {
		t.Errorf("%s, %v", out, err)
	}
}
