package command_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"opsgate/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/tables.txt")

// The tables of all commands for the answers in testdata/answers.json are in testdata/tables.txt:
// -rewrite rewrites it.
func TestTables(t *testing.T) {
	text, err := os.ReadFile("testdata/answers.json")
	testkit.Must(t, err)
	var answers map[string]json.RawMessage // by method and path
	testkit.Must(t, json.Unmarshal(text, &answers))
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
		testkit.Must(t, os.WriteFile(file, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	testkit.Must(t, err)
	if got.String() != string(want) {
		t.Errorf("got:\n%s", got.String())
	}
}

// On a terminal, no line of a table is broken, and ids stay whole.
func TestTablesFitTheTerminal(t *testing.T) {
	text, err := os.ReadFile("testdata/answers.json")
	testkit.Must(t, err)
	var answers map[string]json.RawMessage
	testkit.Must(t, json.Unmarshal(text, &answers))
	s := startStub(t, func(w http.ResponseWriter, r *http.Request) {
		answer(200, string(answers[r.Method+" "+r.URL.Path]))(w, r)
	})
	id := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f-]{27}  `)
	for _, command := range []string{"servers list", "monitors list", "incidents list --limit 1", "status-pages list", "audit list --limit 1"} {
		for s.width = 50; s.width < 300; s.width += 10 {
			rows := strings.Split(s.must(t, strings.Fields(command)...), "\n")
			for i, row := range rows {
				if utf8.RuneCountInString(row) > s.width || i > 0 && !id.MatchString(row) || len(rows) < 2 {
					t.Errorf("%s at %d: %s", command, s.width, row)
				}
			}
		}
	}
	s.width = 80
	if r := s.run(t, "incidents", "list", "--limit", "1"); !strings.HasPrefix(r.out, "ID                                    CREATED         STATUS      TITLE\n") ||
		!strings.Contains(r.err, "opsctl: columns that do not fit the terminal: RESOLVED, IMPACT; --output json prints all\n") {
		t.Errorf("got %s%s", r.out, r.err)
	}
}

func TestCompletionOffersCommandsAndValues(t *testing.T) {
	for line, want := range map[string]string{
		"incidents ":                 "create get list resolve update",
		"servers ":                   "commands get list metrics scheduled-commands",
		"incidents create --impact ": "none minor major critical",
		"servers list --output ":     "table json id",
		"servers metrics x --range ": "1h 24h 7d 30d",
	} {
		var got []string
		for text := range strings.Lines((user{}).must(t, append([]string{"__complete"}, strings.Split(line, " ")...)...)) {
			word, _, _ := strings.Cut(strings.TrimSpace(text), "\t")
			got = append(got, word)
		}
		if strings.Join(got[:len(got)-1], " ") != want { // the last line is for the script
			t.Errorf("%q: got %q", line, got)
		}
	}
}

// The page about opsctl has the table of exit codes of the help.
func TestDocumentedExitCodes(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/integrate/opsctl.md")
	testkit.Must(t, err)
	_, list, _ := strings.Cut((user{}).must(t, "--help"), "Exit codes:\n")
	list, _, found := strings.Cut(list, "\n\n")
	for line := range strings.SplitSeq(list, "\n") {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if row := "\n| " + code + " | " + meaning + " |\n"; !found || !strings.Contains(string(page), row) {
			t.Errorf("docs/integrate/opsctl.md lacks %q", row)
		}
	}
}
