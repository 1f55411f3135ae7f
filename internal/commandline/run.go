package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"opsgate/internal/buildinfo"
)

// Run runs the command of a program that the arguments, which are without the program's name,
// select. It returns the exit code: 0 done, 1 failed, 2 wrong usage, or the ExitCode of the
// command's error. Errors of a command before its RunE are usage errors.
//
// Run adds the commands version and completion, and the flag --version. A command without Args
// takes the arguments that its Use names. A flag whose placeholder is FILE or DIR is completed by
// files or directories. The functions present change an error before it is reported.
func Run(
	ctx context.Context, program *cobra.Command, arguments []string, out, errs io.Writer, present ...func(error) error,
) int {
	program.SetOut(out)
	program.SetErr(errs)
	program.SetArgs(append([]string{}, arguments...)) // cobra reads os.Args for nil
	program.SilenceErrors, program.SilenceUsage = true, true
	program.SetFlagErrorFunc(unknownFlag)
	program.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	program.AddCommand(append(releaseCommands(), versionCommand())...)
	program.InitDefaultCompletionCmd(arguments...)
	started := false
	prepare(program, &started)
	addVersionFlag(program)
	command, err := program.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitDone
	case !started:
		err = UsageError{err}
	}
	for _, change := range present {
		err = change(err)
	}
	return report(errs, command, err)
}

// prepare completes a command and those below it. Each sets started when it runs.
func prepare(command *cobra.Command, started *bool) {
	for _, c := range command.Commands() {
		prepare(c, started)
	}
	if command.Args == nil {
		command.Args = namedArguments
	}
	run := command.RunE
	if run == nil && command.Run == nil {
		run = func(*cobra.Command, []string) error { return UsageError{errors.New("expected a command")} }
	}
	if run != nil {
		command.RunE = func(c *cobra.Command, arguments []string) error {
			*started = true
			return run(c, arguments)
		}
	}
	for _, flags := range []*pflag.FlagSet{command.Flags(), command.PersistentFlags()} {
		flags.VisitAll(func(flag *pflag.Flag) { completeValue(command, flag) })
	}
}

// namedArguments returns an error unless there is an argument for each name in the command's Use.
func namedArguments(command *cobra.Command, arguments []string) error {
	names := strings.Fields(command.Use)[1:]
	switch {
	case len(arguments) < len(names):
		return fmt.Errorf("the argument %s is missing", names[len(arguments)])
	case len(arguments) == len(names):
		return nil
	case command.HasSubCommands():
		return fmt.Errorf("unknown command %q%s", arguments[0], similar(command, arguments[0], ""))
	}
	return fmt.Errorf("unexpected argument %q", arguments[len(names)])
}

func versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", RunE: printVersion}
}

// addVersionFlag adds the version command as a flag. cobra's own flag prints only the version, and
// has a short form.
func addVersionFlag(program *cobra.Command) {
	asked := program.Flags().Bool("version", false, "print the version")
	run := program.RunE
	program.RunE = func(c *cobra.Command, arguments []string) error {
		if *asked {
			return printVersion(c, arguments)
		}
		return run(c, arguments)
	}
}

// printVersion prints the version, the revision, the time of the build and the Go version.
func printVersion(c *cobra.Command, _ []string) error {
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s %s", c.Root().Name(), buildinfo.Read())
	return err
}
