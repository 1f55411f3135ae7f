package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"opsgate/internal/testkit"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	const root = "../../../../.."
	files, err := generate(root)
	testkit.Must(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, outDir, name))
		testkit.Must(t, err)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs from the output for its runbook: run `make generate`\n%s", name, diff)
		}
	}
	if old, err := os.ReadDir(filepath.Join(root, outDir)); err != nil || len(old) != len(files) {
		t.Errorf("there are %d generated files and %d runbooks (%v): run `make generate`", len(old), len(files), err)
	}
}

func TestLinksLeadToServedPagesOnly(t *testing.T) {
	for source, want := range map[string]string{
		"[there](b.md#a-b)":            `<a href="b.html#a-b">there</a>`,
		"[there](b.md)":                `<a href="b.html">there</a>`,
		"[here](#a-b)":                 `<a href="#a-b">here</a>`,
		"[out](https://go.example/x)":  `<a href="https://go.example/x">out</a>`,
		"see [x.md](../x.md).":         `see docs/operate/x.md.`,
		"[*all* lines](../x.md#lines)": `<em>all</em> lines (docs/operate/x.md#lines)`,
		"[c.md](c.md)":                 `there is no c.md`,
		"<b>x</b>":                     `there is HTML in the page`,
	} {
		p, err := parse("a.md", []byte("# A\n\n"+source+"\n"))
		testkit.Must(t, err)
		got, err := p.render(map[string]bool{"a.md": true, "b.md": true})
		if err != nil {
			got = err.Error()
		}
		if got = strings.TrimPrefix(got, "<h1 id=\"a\">A</h1>\n"); got != want && got != "<p>"+want+"</p>\n" {
			t.Errorf("%s: got %s", source, got)
		}
	}
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	ids := anchors{}
	for _, test := range [][2]string{
		{"A breaker is open", "a-breaker-is-open"}, {"`max_in_flight`: 5 - 6?", "max_in_flight-5---6"}, {"A breaker is open", "a-breaker-is-open-1"},
	} {
		if got := string(ids.Generate([]byte(test[0]), 0)); got != test[1] {
			t.Errorf("%s: got %s", test[0], got)
		}
	}
}

func TestPageNeedsTitle(t *testing.T) {
	if _, err := parse("a.md", []byte("text\n")); err == nil {
		t.Error("a page without a heading is accepted")
	}
}
