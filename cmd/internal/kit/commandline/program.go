package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// A Program is the name, description and output of a command line.
type Program struct {
	Name        string
	Description string
	About       About
	Out, Err    io.Writer
}

// Run parses the arguments, without the program's name, by a grammar with kong's tags, and runs the command. The Run method of a command
// can take the context and values of the types of bindings. Run returns the exit code: 0 done, 1 failed, 2 wrong usage, or the ExitCode of
// the command's error.
func (p Program) Run(ctx context.Context, grammar any, arguments []string, bindings ...any) int {
	printed := false
	parser, err := kong.New(grammar,
		kong.Name(p.Name),
		kong.Description(p.Description),
		kong.Writers(p.Out, p.Err),
		kong.Exit(func(int) { printed = true }), // after help or the version; the result of the parser is then ignored
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(append(bindings, p.About)...),
	)
	if err != nil {
		return p.report(err, exitFailed)
	}
	command, err := parser.Parse(arguments)
	switch {
	case printed:
		return exitDone
	case err != nil:
		return p.report(err, exitUsage)
	}
	if err := command.Run(); err != nil {
		if _, misused := errors.AsType[UsageError](err); misused {
			return p.report(err, exitUsage)
		}
		if e, ok := errors.AsType[coded](err); ok {
			return p.report(err, e.ExitCode())
		}
		return p.report(err, exitFailed)
	}
	return exitDone
}

func (p Program) report(err error, code int) int {
	if problems, ok := errors.AsType[listing](err); ok {
		for _, line := range problems.Lines() {
			fmt.Fprintln(p.Err, line)
		}
		return code
	}
	text := err.Error()
	if flag, _, missing := strings.Cut(text, ` value but got "EOL"`); missing { // the library's text for a missing value
		flag, _, _ = strings.Cut(flag, ": ")
		text = flag + ": expected a value"
	}
	fmt.Fprintf(p.Err, "%s: %s\n", p.Name, text)
	if code == exitUsage {
		fmt.Fprintf(p.Err, "Try: %s --help\n", p.misused(err))
	}
	return code
}

// misused returns the command with the usage error, or the program if no command was parsed.
func (p Program) misused(err error) string {
	if e, parsed := errors.AsType[*kong.ParseError](err); parsed && e.Context != nil {
		if command := e.Context.Selected(); command != nil {
			return p.Name + " " + command.Path()
		}
	}
	return p.Name
}
