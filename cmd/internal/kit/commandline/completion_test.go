package commandline_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lines are command lines with the candidates for their last word. The working directory has a file, that.yaml, and a directory, there.
var lines = []struct {
	line string
	want []string
}{
	{"sample ", []string{"completion", "man", "serve", "token", "version"}},
	{"sample to", []string{"token"}},
	{"sample token ", []string{"create", "list"}},
	{"sample secret ", nil},
	{"sample serve --", []string{"--config", "--data", "--help", "--label", "--level", "--verbose", "--version"}},
	{"sample serve --le", []string{"--level"}},
	{"sample serve --level=info --l", []string{"--label"}},
	{"sample serve --label a --l", []string{"--label", "--level"}},
	{"sample serve --level ", []string{"debug", "info", "warn"}},
	{"sample serve --level i", []string{"info"}},
	{"sample serve --config th", []string{"that.yaml", "there"}},
	{"sample serve --data th", []string{"there"}},
	{"sample serve --label ", nil},
	{"sample --verbose token create l", []string{"live"}},
	{"sample token create live ", nil},
	{"sample token create live --n", []string{"--name"}},
	{"sample serve --unknown ", nil},
	{"sample completion ", []string{"bash", "fish", "zsh"}},
}

// script writes the completion script of a shell to a file and returns its path.
func script(t *testing.T, shell string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(sample(t, "completion", shell)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// completes runs program in a shell for each line and compares the candidates.
func completes(t *testing.T, shell string, args []string, program string, more map[string][]string) {
	t.Helper()
	table := slices.Clone(lines)
	for line, want := range more {
		table = append(table, struct {
			line string
			want []string
		}{line, want})
	}
	path := script(t, shell)
	for _, test := range table {
		out := output(t, install(t, shell, append(slices.Clone(args), program, path, test.line)...))
		var got []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(line, "\t")
			got = append(got, strings.TrimRight(strings.TrimSpace(word), "/")) // fish marks directories
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q, want %q", test.line, got, test.want)
		}
	}
}

func TestCompletionInBash(t *testing.T) {
	const program = `
		compopt() { :; } # which works only while the reader of lines completes
		source "$0"
		COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
		read -ra COMP_WORDS <<<"$1"
		$(complete -p sample | grep -o '_[a-z]*_complete')
		if ((${#COMPREPLY[@]})); then printf '%s\n' "${COMPREPLY[@]}"; fi`
	completes(t, "bash", []string{"--norc", "-c"}, program, map[string][]string{
		"sample serve --level=w":   {"warn"}, // = separates words in bash
		"sample serve --config=th": {"that.yaml", "there"},
	})
}

// Stubs of zsh's completion functions print what they are called with.
func TestCompletionInZsh(t *testing.T) {
	const program = `
		compdef() { : }
		_describe() { local c; for c in "${(@P)2}"; do print -r -- "${${c//\\:/;}%%:*}"; done }
		compset() { prefix=${words[CURRENT]} }
		_files() { print -rl -- ${words[CURRENT]#--*=}*(N${1:+/}) }
		source "$0"
		words=(${=1})
		if [[ $1 == *' ' ]]; then words+=(""); fi
		CURRENT=${#words}
		_sample`
	completes(t, "zsh", []string{"-f", "-c"}, program, map[string][]string{
		"sample serve --level=w":   {"--level=warn"},
		"sample serve --config=th": {"that.yaml", "there"},
	})
}

func TestCompletionInFish(t *testing.T) {
	completes(t, "fish", []string{"--no-config", "-c"}, `source $argv[1]; complete -C $argv[2]`, map[string][]string{
		"sample serve --level=w": {"--level=warn"},
	})
}

func TestCandidatesHaveDescriptions(t *testing.T) {
	if got := sample(t, "__complete", "--", "ser"); got != "serve\tServe: until the end.\nwords\n" {
		t.Errorf("got %q", got)
	}
	if got := sample(t, "__complete"); !strings.Contains(got, "\ntoken\tManage tokens.\n") {
		t.Errorf("without a word: got %q", got)
	}
}
