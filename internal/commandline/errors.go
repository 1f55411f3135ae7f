package commandline

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes of programs.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// A UsageError is a mistake on the command line that a command detects itself.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.Err }

// ExitCode returns 2.
func (UsageError) ExitCode() int { return exitUsage }

// A coded error has its own exit code.
type coded interface {
	error
	ExitCode() int
}

// A listing is an error that is reported as it is, in lines: several problems, each of which begins
// with the name of a file, as editors expect it, or a form for programs.
type listing interface {
	error
	Lines() []string
}

// report prints the error of a command and returns the exit code.
func report(w io.Writer, command *cobra.Command, err error) int {
	code := exitFailed
	if e, ok := errors.AsType[coded](err); ok {
		code = e.ExitCode()
	}
	if problems, ok := errors.AsType[listing](err); ok {
		for _, line := range problems.Lines() {
			fmt.Fprintln(w, line)
		}
		return code
	}
	fmt.Fprintf(w, "%s: %v\n", command.Root().Name(), err)
	if _, isUsage := errors.AsType[UsageError](err); isUsage {
		fmt.Fprintf(w, "Try: %s --help\n", command.CommandPath())
	}
	return code
}

// unknownFlag adds the similar flags of the command to the error for a flag that does not exist.
func unknownFlag(command *cobra.Command, err error) error {
	e, unknown := errors.AsType[*pflag.NotExistError](err)
	if !unknown {
		return err
	}
	flags := new(cobra.Command)
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: flag.Name, Hidden: flag.Hidden, Run: func(*cobra.Command, []string) {}})
	})
	return fmt.Errorf("%w%s", err, similar(flags, e.GetSpecifiedName(), "--"))
}

// similar returns "; did you mean NAME?" with the commands of a group whose names are similar to a
// name, or "".
func similar(group *cobra.Command, name, prefix string) string {
	group.SuggestionsMinimumDistance = 2
	names := group.SuggestionsFor(name)
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}
