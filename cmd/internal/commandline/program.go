package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Exit codes of programs.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// A Program is what its command line says of itself, and where it writes.
type Program struct {
	Name        string
	Description string
	About       About
	Out, Err    io.Writer
}

// A UsageError is a mistake on the command line that only the command itself can see.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what the mistake is.
func (e UsageError) Unwrap() error { return e.Err }

// Run parses the arguments, which are without the program's name, by a grammar in kong's tags, and runs the command that they name.
// Its methods may ask for the context, and for values of the types of bindings. It returns the exit code: 0 done, 1 failed, 2
// wrong usage.
func (p Program) Run(ctx context.Context, grammar any, arguments []string, bindings ...any) int {
	told := false
	parser, err := kong.New(grammar,
		kong.Name(p.Name),
		kong.Description(p.Description),
		kong.Writers(p.Out, p.Err),
		kong.Exit(func(int) { told = true }), // called once help or the version is printed; what is parsed after that does not matter
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(append(bindings, p.About)...),
	)
	if err != nil {
		return p.report(err, exitFailed)
	}
	command, err := parser.Parse(arguments)
	switch {
	case told:
		return exitDone
	case err != nil:
		return p.report(err, exitUsage)
	}
	if err := command.Run(); err != nil {
		if _, misused := errors.AsType[UsageError](err); misused {
			return p.report(err, exitUsage)
		}
		return p.report(err, exitFailed)
	}
	return exitDone
}

// A listing is an error of several problems, each in a line that begins with the name of a file: editors jump there.
type listing interface {
	error
	Lines() []string
}

func (p Program) report(err error, code int) int {
	if problems, ok := errors.AsType[listing](err); ok {
		for _, line := range problems.Lines() {
			fmt.Fprintln(p.Err, line)
		}
		return code
	}
	text := err.Error()
	if flag, _, missing := strings.Cut(text, ` value but got "EOL"`); missing { // as the library calls the end of the line
		flag, _, _ = strings.Cut(flag, ": ")
		text = flag + ": expected a value"
	}
	fmt.Fprintf(p.Err, "%s: %s\n", p.Name, text)
	if code == exitUsage {
		fmt.Fprintf(p.Err, "Try: %s --help\n", p.misused(err))
	}
	return code
}

// misused returns the command that was not understood, or the program where none was reached.
func (p Program) misused(err error) string {
	if e, parsed := errors.AsType[*kong.ParseError](err); parsed && e.Context != nil {
		if command := e.Context.Selected(); command != nil {
			return p.Name + " " + command.Path()
		}
	}
	return p.Name
}
