package commandline_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"opsgate/internal/commandline"
)

// newProgram returns a program with every kind of command and flag that the package distinguishes.
func newProgram() *cobra.Command {
	var config, data, kind string
	var level slog.Level
	serve := &cobra.Command{Use: "serve", Short: "Serve: until the end", RunE: func(*cobra.Command, []string) error {
		return errors.New("the port is in use")
	}}
	serve.Flags().StringVar(&config, "config", "", "read this `FILE`")
	serve.Flags().StringVar(&data, "data", "", "keep it in this `DIR` ($SAMPLE_DATA)")
	commandline.Variable(serve.Flags(), "data", "SAMPLE_DATA")
	commandline.Enum(serve.Flags(), &kind, "kind", "live", "live or test", "", "live", "test")
	commandline.Text(serve.Flags(), &level, "level", "info", "least `LEVEL` of the log")
	create := &cobra.Command{Use: "create NAME", Short: "Create a token", RunE: func(*cobra.Command, []string) error {
		return commandline.UsageError{Err: errors.New("a bad name")}
	}}
	create.Flags().String("team", "", "`ID` of the team")
	commandline.Required(create, "team")
	token := &cobra.Command{Use: "token", Short: "Manage tokens"}
	token.AddCommand(create)
	program := &cobra.Command{Use: "sample", Short: "A sample of a program"}
	program.PersistentFlags().Bool("verbose", false, "write more")
	program.AddCommand(serve, token)
	return program
}

func TestRun(t *testing.T) {
	t.Setenv("SAMPLE_DATA", "/srv/sample")
	for _, test := range []struct {
		line     string
		code     int
		out, err string // substrings; "" for no output
	}{
		{"--help", 0, "A sample of a program", ""},
		{"serve --help", 0, "--config FILE", ""},
		{"serve --help", 0, "$SAMPLE_DATA", ""},
		{"token create --help", 0, "--team ID   ID of the team (required)\n", ""},
		{"version", 0, "sample dev\nrevision: ", ""},
		{"--version", 0, "sample dev\nrevision: ", ""},
		{"", 2, "", "sample: expected a command\nTry: sample --help\n"},
		{"token", 2, "", "sample: expected a command\nTry: sample token --help\n"},
		{"serv", 2, "", "sample: unknown command \"serv\"; did you mean serve?\nTry: sample --help\n"},
		{"token creat", 2, "", "sample: unknown command \"creat\"; did you mean create?\nTry: sample token --help\n"},
		{"serve x", 2, "", "sample: unexpected argument \"x\"\nTry: sample serve --help\n"},
		{"serve --port=1", 2, "", "sample: unknown flag: --port\nTry: sample serve --help\n"},
		{"serve --confg=1", 2, "", "sample: unknown flag: --confg; did you mean --config?\n"},
		{"serve --verbos", 2, "", "did you mean --verbose?\n"},
		{"serve --config", 2, "", "sample: flag needs an argument: --config\n"},
		{"serve --kind=x", 2, "", "must be live, test\n"},
		{"serve --level=x", 2, "", "--level"},
		{"serve --kind=test --level=debug", 1, "", "sample: the port is in use\n"},
		{"token create", 2, "", "sample: the argument NAME is missing\n"},
		{"token create a b --team t", 2, "", "sample: unexpected argument \"b\"\n"},
		{"token create x", 2, "", "required flag(s) \"team\" not set\nTry: sample token create --help\n"},
		{"token create x --team y", 2, "", "sample: a bad name\nTry: sample token create --help\n"},
	} {
		var out, err bytes.Buffer
		code := commandline.Run(t.Context(), newProgram(), strings.Fields(test.line), &out, &err)
		if code != test.code || !contains(out.String(), test.out) || !contains(err.String(), test.err) {
			t.Errorf("%q: got %d %q %q", test.line, code, out.String(), err.String())
		}
	}
}

func contains(text, part string) bool {
	return strings.Contains(text, part) && (part == "") == (text == "")
}
