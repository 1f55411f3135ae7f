package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"opsgate/cmd/internal/ctl/apiclient"
	"opsgate/internal/commandline"
)

// addReads adds a command for each operation that reads.
func addReads(root *cobra.Command, p *program) error {
	for _, o := range apiclient.Operations() {
		if o.Writes() {
			continue
		}
		words := commandWords(o)
		last := len(words) - 1
		command, err := newRead(p, o, words[last])
		if err != nil {
			return fmt.Errorf("the command for %s: %w", o.ID, err)
		}
		group := root
		for _, word := range words[:last] {
			group = subcommand(group, word)
		}
		group.AddCommand(command)
	}
	return nil
}

// commandWords returns the names of the command for an operation and of the groups above it:
// `servers list` for /v1/servers, `servers get` for /v1/servers/{id}, `servers metrics` for
// /v1/servers/{id}/metrics, and `me` for /v1/me, which is no list.
func commandWords(o apiclient.Operation) []string {
	var words []string
	segments := strings.Split(o.Path, "/")[2:] // without the version
	for _, segment := range segments {
		if !isParameter(segment) {
			words = append(words, segment)
		}
	}
	switch {
	case isParameter(segments[len(segments)-1]):
		words = append(words, "get")
	case len(words) == 1 && o.IsList:
		words = append(words, "list")
	}
	return words
}

func isParameter(segment string) bool { return strings.HasPrefix(segment, "{") }

// subcommand returns a command of a group, which it adds if there is none.
func subcommand(group *cobra.Command, name string) *cobra.Command {
	for _, c := range group.Commands() {
		if c.Name() == name {
			return c
		}
	}
	c := &cobra.Command{Use: name, Short: "Commands on /v1/" + name}
	group.AddCommand(c)
	return c
}

// parameter is the JSON Schema of a parameter.
type parameter struct {
	Type, Format, Description string
	Enum                      []string
	Default                   any
}

// newRead returns the command for an operation that reads: an argument for each parameter of the
// path, and a flag for each of the query. Those that select a page are replaced by the flags of a
// window.
func newRead(p *program, o apiclient.Operation, name string) (*cobra.Command, error) {
	var schema struct{ Properties map[string]parameter }
	if err := json.Unmarshal([]byte(o.Input), &schema); err != nil {
		return nil, err
	}
	var arguments []string
	for segment := range strings.SplitSeq(o.Path, "/") {
		if isParameter(segment) {
			arguments = append(arguments, strings.Trim(segment, "{}"))
		}
	}
	command := newCommand(name+" "+strings.ToUpper(strings.Join(arguments, " ")), o)
	var w window
	query := o.Query
	if isPaged(o) {
		w.addFlags(command)
		if o.ID == "v1ListIncidents" {
			w.addStatusFlag(command)
		}
		query = slices.DeleteFunc(slices.Clone(query), isPageParameter)
	}
	for _, name := range query {
		p.addFlag(command, name, schema.Properties[name])
	}
	command.RunE = func(c *cobra.Command, values []string) error {
		in := input{}
		for i, name := range arguments {
			value, err := schema.Properties[name].check(values[i])
			if err != nil {
				return commandline.UsageError{Err: fmt.Errorf("the argument %s: %w", strings.ToUpper(name), err)}
			}
			in[name] = value
		}
		for _, name := range query {
			if flag := c.Flag(words(name, "-")); flag.Changed {
				in[name] = flag.Value.String()
			}
		}
		return p.read(c.Context(), o, in, w)
	}
	return command, nil
}

// newCommand returns a command with the description of an operation.
func newCommand(use string, o apiclient.Operation) *cobra.Command {
	return &cobra.Command{Use: use, Short: o.Summary, Long: o.Summary + ".\n\n" + o.Description}
}

// addFlag adds the flag for a parameter of the query.
func (p *program) addFlag(command *cobra.Command, name string, of parameter) {
	name = words(name, "-")
	usage := firstSentence(of.Description)
	switch {
	case len(of.Enum) > 0:
		initial, _ := of.Default.(string)
		commandline.Enum(command.Flags(), new(string), name, initial, usage+": "+strings.Join(of.Enum, ", "), of.Enum...)
	case of.Type == "boolean":
		command.Flags().Bool(name, false, usage)
	case of.Type == "integer":
		command.Flags().Int64(name, 0, usage)
	case of.Format == "date-time":
		command.Flags().Var(&flagTime{clock: p.Clock}, name, usage+"; or how long ago, like 1h")
	default:
		command.Flags().String(name, "", usage)
	}
}

// firstSentence returns the first sentence of a Markdown text, as the usage of a flag.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(strings.Join(strings.Fields(text), " "), ". ")
	return strings.ReplaceAll(strings.TrimSuffix(text, "."), "`", "") // pflag takes a quoted word for the placeholder
}

// flagTime is a time of the command line: as the API takes it, or how long ago it was.
type flagTime struct {
	clock func() time.Time
	text  string
}

// Set implements pflag.Value.
func (f *flagTime) Set(text string) (err error) {
	f.text = text
	if ago, err := time.ParseDuration(f.text); err == nil && ago >= 0 {
		f.text = f.clock().Add(-ago).UTC().Format(time.RFC3339)
		return nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700"} {
		if _, err = time.Parse(form, f.text); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%q is neither a time like 2026-01-02T03:04:05Z nor how long ago, like 1h", f.text)
}

// String implements pflag.Value.
func (f *flagTime) String() string { return f.text }

// Type implements pflag.Value.
func (*flagTime) Type() string { return "time" }

const exampleID = "0198c5b7-0a25-7f6c-b1d8-49e36fa0c72d"

// check returns the text of a value for the parameter.
func (p parameter) check(text string) (string, error) {
	if p.Format != "uuid" {
		return text, nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return "", fmt.Errorf("%q is not an ID like %s", text, exampleID)
	}
	return id.String(), nil
}

// read calls an operation and prints its answer.
func (p *program) read(ctx context.Context, o apiclient.Operation, in input, w window) error {
	if err := p.requireIDs(o.Answer); err != nil {
		return err
	}
	s, err := p.connect()
	if err != nil {
		return err
	}
	text, err := s.walk(ctx, o, in, w)
	if err != nil {
		return err
	}
	return p.printAnswer(ctx, o, text)
}

// isPaged reports whether the answer of an operation is a page of a list.
func isPaged(o apiclient.Operation) bool {
	return slices.Contains(o.Query, "cursor") || slices.Contains(o.Query, "page")
}

// isPageParameter reports whether a parameter of a paged list selects a page.
func isPageParameter(name string) bool {
	return slices.Contains([]string{"cursor", "limit", "page", "pageSize"}, name)
}
