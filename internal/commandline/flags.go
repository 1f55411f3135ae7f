package commandline

import (
	"encoding"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Enum adds a flag that has one of the values. The usage should list them.
func Enum[T ~string](flags *pflag.FlagSet, p *T, name string, value T, usage string, values ...T) {
	*p = value
	flags.Var(&enum[T]{p, values}, name, usage)
}

// enum is the value of an Enum.
type enum[T ~string] struct {
	p      *T
	values []T
}

// Set implements pflag.Value.
func (e *enum[T]) Set(text string) error {
	if !slices.Contains(e.values, T(text)) {
		return fmt.Errorf("must be %s", strings.Join(e.words(), ", "))
	}
	*e.p = T(text)
	return nil
}

// String implements pflag.Value.
func (e *enum[T]) String() string { return string(*e.p) }

// Type implements pflag.Value.
func (*enum[T]) Type() string { return "string" }

// words returns the values that are not empty.
func (e *enum[T]) words() (list []string) {
	for _, value := range e.values {
		if value != "" {
			list = append(list, string(value))
		}
	}
	return list
}

// Text adds a flag with a value that its type parses. An empty default leaves the value as it is.
func Text(flags *pflag.FlagSet, p encoding.TextUnmarshaler, name, value, usage string) {
	v := &text{value: p}
	if value != "" {
		must(v.Set(value))
	}
	flags.Var(v, name, usage)
}

// text is the value of a Text.
type text struct {
	value encoding.TextUnmarshaler
	text  string
}

// Set implements pflag.Value.
func (t *text) Set(s string) error {
	if err := t.value.UnmarshalText([]byte(s)); err != nil {
		return err
	}
	t.text = s
	return nil
}

// String implements pflag.Value.
func (t *text) String() string { return t.text }

// Type implements pflag.Value.
func (*text) Type() string { return "value" }

// Variable sets a flag that takes any text from an environment variable, unless that is empty. The
// flag on the command line overrides it.
func Variable(flags *pflag.FlagSet, name, variable string) {
	if value := os.Getenv(variable); value != "" {
		must(flags.Set(name, value))
	}
}

// Required requires flags of a command, and adds that to their usage.
func Required(command *cobra.Command, names ...string) {
	for _, name := range names {
		must(command.MarkFlagRequired(name))
		command.Flags().Lookup(name).Usage += " (required)"
	}
}

// completeValue adds the completion of a flag's value: the values of an Enum, or files or
// directories if the placeholder is FILE or DIR.
func completeValue(command *cobra.Command, flag *pflag.Flag) {
	add := func(words []string, directive cobra.ShellCompDirective) {
		// fails for a flag that commands share
		_ = command.RegisterFlagCompletionFunc(flag.Name, cobra.FixedCompletions(words, directive))
	}
	if e, ok := flag.Value.(interface{ words() []string }); ok {
		add(e.words(), cobra.ShellCompDirectiveNoFileComp)
	}
	switch placeholder, _ := pflag.UnquoteUsage(flag); placeholder {
	case "FILE":
		add(nil, cobra.ShellCompDirectiveDefault)
	case "DIR":
		add(nil, cobra.ShellCompDirectiveFilterDirs)
	}
}

// must panics for an error, which only a mistake in the source code can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
