package commandline_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"opsgate/internal/commandline"
)

// complete returns the candidates for the last word of a line, and whether the shell offers files.
func complete(t *testing.T, line string) (words []string, directive cobra.ShellCompDirective) {
	t.Helper()
	var out, errs bytes.Buffer
	arguments := append([]string{cobra.ShellCompRequestCmd}, strings.Split(line, " ")...)
	if code := commandline.Run(t.Context(), newProgram(), arguments, &out, &errs); code != 0 {
		t.Fatalf("%q: got %d %s", line, code, &errs)
	}
	for line := range strings.Lines(out.String()) {
		if _, err := fmt.Sscanf(line, ":%d", &directive); err == nil {
			break
		}
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		words = append(words, word)
	}
	slices.Sort(words)
	return words, directive
}

func TestCompletion(t *testing.T) {
	const none, files, folders = cobra.ShellCompDirectiveNoFileComp, cobra.ShellCompDirectiveDefault, cobra.ShellCompDirectiveFilterDirs
	for _, test := range []struct {
		line      string
		words     []string
		directive cobra.ShellCompDirective
	}{
		{"", []string{"completion", "help", "serve", "token", "version"}, none},
		{"to", []string{"token"}, none},
		{"token ", []string{"create"}, none},
		{"serve ", nil, none},
		{"serve --kin", []string{"--kind"}, none},
		{"serve --kind ", []string{"live", "test"}, none},
		{"serve --kind=t", []string{"live", "test"}, none}, // the shell filters these
		{"serve --config ", nil, files},
		{"serve --data=", nil, folders},
		{"serve --level ", nil, none},
		{"token create ", []string{"--team"}, none},
		{"token create --team ", nil, none},
		{"completion ", []string{"bash", "fish", "powershell", "zsh"}, none},
	} {
		words, directive := complete(t, test.line)
		if !slices.Equal(words, test.words) || directive != test.directive {
			t.Errorf("%q: got %q, %d", test.line, words, directive)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out, errs bytes.Buffer
		code := commandline.Run(t.Context(), newProgram(), []string{"completion", shell}, &out, &errs)
		if code != 0 || errs.Len() > 0 || !strings.Contains(out.String(), "sample") {
			t.Errorf("%s: got %d %s", shell, code, &errs)
		}
	}
}
