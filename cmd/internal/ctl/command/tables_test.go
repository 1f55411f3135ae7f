package command_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/tables.txt")

// The tables of all commands for the answers in testdata/answers.json are in testdata/tables.txt: -rewrite rewrites it.
func TestTables(t *testing.T) {
	text, err := os.ReadFile("testdata/answers.json")
	must(t, err)
	var answers map[string]json.RawMessage // by method and path
	must(t, json.Unmarshal(text, &answers))
	id := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	s := startStub(t, func(w http.ResponseWriter, r *http.Request) {
		answer(200, string(answers[r.Method+" "+id.ReplaceAllString(r.URL.Path, "{id}")]))(w, r)
	})
	const someID = "01234567-89ab-7def-8123-456789abcdef"
	var got strings.Builder
	for _, command := range []string{
		"me", "servers list", "servers get " + someID, "servers metrics " + someID, "servers commands " + someID, "servers scheduled-commands " + someID,
		"server-groups list", "monitors list", "monitors checks " + someID, "incidents list --limit 1", "incidents get " + someID,
		"incidents create --title a --impact none --message b", "incidents resolve " + someID, "status-pages list", "status-pages get " + someID,
		"status-pages incidents " + someID, "audit list --limit 1", "servers list -o id", "incidents create --title a --impact none --message b -o id",
	} {
		got.WriteString("$ opsctl " + command + "\n" + s.must(t, strings.Fields(command)...) + "\n\n")
	}
	const file = "testdata/tables.txt"
	if *rewrite {
		must(t, os.WriteFile(file, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if got.String() != string(want) {
		t.Errorf("got:\n%s", got.String())
	}
}

func TestCompletionOffersCommandsAndValues(t *testing.T) {
	u := user{}
	for line, want := range map[string][]string{
		"incidents ":                 {"create", "get", "list", "resolve", "update"},
		"incidents create --impact ": {"critical", "major", "minor", "none"},
		"servers list --output ":     {"id", "json", "table"},
		"servers metrics x --range ": {"1h", "24h", "30d", "7d"},
	} {
		words := append([]string{"__complete", "--"}, strings.Split(line, " ")...)
		var got []string
		for text := range strings.Lines(u.must(t, words...)) {
			word, _, _ := strings.Cut(strings.TrimSpace(text), "\t")
			got = append(got, word)
		}
		got = got[:len(got)-1] // the last line says what the script offers
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q", line, got)
		}
	}
}

// The page about opsctl has the table of exit codes of the manual page.
func TestDocumentedExitCodes(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/integrate/opsctl.md")
	must(t, err)
	_, table, _ := strings.Cut(string(page), "| code | meaning |\n|--:|---|\n")
	table, _, found := strings.Cut(table, "\n\n")
	if !found {
		t.Fatal("docs/integrate/opsctl.md has no table of exit codes")
	}
	manual := (user{}).must(t, "man")
	_, section, _ := strings.Cut(manual, ".SH EXIT STATUS\n")
	var want []string
	for item := range strings.SplitSeq(strings.TrimPrefix(section, ".TP\n"), "\n.TP\n") {
		code, meaning, _ := strings.Cut(strings.NewReplacer(`\fB`, "", `\fR`, "", `\-`, "-").Replace(strings.TrimSpace(item)), "\n")
		want = append(want, "| "+code+" | "+strings.TrimSuffix(meaning, ".")+" |")
	}
	if len(want) < 9 || table != strings.Join(want, "\n") {
		t.Errorf("the table is\n%s\nwant\n%s", table, strings.Join(want, "\n"))
	}
}
