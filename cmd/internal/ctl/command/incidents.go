package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"opsgate/cmd/internal/ctl/apiclient"
	"opsgate/internal/commandline"
)

// operation returns the operation with an ID, which the API has.
func operation(id string) apiclient.Operation {
	all := apiclient.Operations()
	return all[slices.IndexFunc(all, func(o apiclient.Operation) bool { return o.ID == id })]
}

// key is the idempotency key of a write; "" for a random one.
type key struct{ text string }

func (k *key) addFlag(command *cobra.Command) {
	commandline.Text(command.Flags(), k, "idempotency-key", "",
		"with the same `KEY` the command is executed once in 24 hours (default: a random key)")
}

// UnmarshalText implements encoding.TextUnmarshaler. An empty key, of a variable that is not set,
// would not make a job safe to repeat.
func (k *key) UnmarshalText(text []byte) error {
	k.text = string(text)
	if k.text == "" {
		return errors.New("the key is empty")
	}
	return nil
}

// write calls an operation that writes, and prints its answer. A message of - is read from standard
// input.
func (p *program) write(ctx context.Context, id, message string, in input, k key) error {
	o := operation(id)
	message, err := p.readText(message)
	if err != nil {
		return err
	}
	in["message"] = message
	if k.text != "" {
		in["idempotencyKey"] = k.text
	}
	s, err := p.connect()
	if err != nil {
		return err
	}
	text, err := p.body(s.call(ctx, o, in)) //nolint:bodyclose // body closes it
	if err != nil {
		return err
	}
	return p.printAnswer(ctx, o, text)
}

// statusResolved is the status of incidents that are over.
const statusResolved = "resolved"

// statuses are the statuses of incidents.
func statuses() []string {
	return []string{"investigating", "identified", "monitoring", statusResolved}
}

func newCreate(p *program) *cobra.Command {
	var k key
	var title, status, impact, message string
	var page uuid.UUID
	var components []string
	command := newCommand("create", operation("v1CreateIncident"))
	command.RunE = func(c *cobra.Command, _ []string) error {
		in := input{"title": title, "status": status, "impact": impact}
		if page != uuid.Nil {
			in["statusPageId"] = page
		}
		if len(components) > 0 {
			in["componentIds"] = components
		}
		return p.write(c.Context(), "v1CreateIncident", message, in, k)
	}
	flags := command.Flags()
	flags.StringVar(&title, "title", "", "short title")
	commandline.Enum(command.Flags(), &status, "status", "investigating", "status: "+strings.Join(statuses(), ", "),
		statuses()...)
	commandline.Enum(command.Flags(), &impact, "impact", "", "impact: none, minor, major, critical", "none", "minor",
		"major", "critical")
	flags.StringVar(&message, "message", "", "the first update, for the public; - reads standard input")
	commandline.Text(flags, &page, "status-page", "",
		"`ID` of the status page that shows it; its subscribers are notified")
	flags.StringSliceVar(&components, "component", nil, "`ID` of a component that is affected; may be repeated")
	k.addFlag(command)
	commandline.Required(command, "title", "impact", "message")
	return command
}

// newPost returns a command that posts an update to an incident. Its flags set status and message.
func newPost(p *program, name, short string, status, message *string) *cobra.Command {
	var k key
	var silent bool
	command := newCommand(name+" ID", operation("v1AddIncidentUpdate"))
	command.Short = cmp.Or(short, command.Short)
	command.RunE = func(c *cobra.Command, arguments []string) error {
		id, err := parameter{Format: "uuid"}.check(arguments[0])
		if err != nil {
			return commandline.UsageError{Err: fmt.Errorf("the argument ID: %w", err)}
		}
		in := input{"id": id, "status": *status, "notifySubscribers": !silent}
		return p.write(c.Context(), "v1AddIncidentUpdate", *message, in, k)
	}
	command.Flags().BoolVar(&silent, "no-notify", false, "do not notify the subscribers of the status page")
	k.addFlag(command)
	return command
}

func newUpdate(p *program) *cobra.Command {
	var status, message string
	command := newPost(p, "update", "", &status, &message)
	commandline.Enum(command.Flags(), &status, "status", "", "new status: "+strings.Join(statuses(), ", "), statuses()...)
	command.Flags().StringVar(&message, "message", "", "the update, for the public; - reads standard input")
	commandline.Required(command, "status", "message")
	return command
}

func newResolve(p *program) *cobra.Command {
	status, message := statusResolved, ""
	command := newPost(p, "resolve", "Resolve an incident, by an update", &status, &message)
	command.Flags().StringVar(&message, "message", "This incident has been resolved.",
		"the update, for the public; - reads standard input")
	return command
}
