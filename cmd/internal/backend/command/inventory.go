package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/inventory"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/commandline"
	"opsgate/internal/uuid"
)

type apply struct {
	dataDir

	File, Actor string
	DryRun      bool
}

func applyCommand(e Environment) *cobra.Command {
	a := &apply{}
	c := &cobra.Command{
		Use: "apply", Short: "Create and change teams, servers, monitors and status pages as a file describes them",
		Long: `Create and change teams, servers, monitors and status pages as a file describes them.

It prints each change: + created, ~ changed, = kept although the file does not have it. Nothing is
deleted. A second run changes nothing. The secret of a new webhook is printed once.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.run(c.Context(), e) },
	}
	a.addTo(c)
	c.Flags().StringVarP(&a.File, "file", "f", "", "inventory `FILE` in YAML, by the schema that opsbackend schema prints")
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, "print the changes, or the error, and keep nothing of it")
	c.Flags().StringVar(&a.Actor, "actor", audit.ServiceActor, "`ID` of the person or the token in the audit log, a UUID")
	commandline.Required(c, "file")
	return c
}

// errDryRun rolls a transaction back that has found no error.
var errDryRun = errors.New("dry run")

// run applies the file in one transaction, which a dry run rolls back.
func (c *apply) run(ctx context.Context, e Environment) error {
	actor, valid := uuid.Canonical(c.Actor)
	if !valid {
		return commandline.UsageError{Err: errors.New("--actor must be a UUID")}
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("read the inventory: %w", err)
	}
	file, err := inventory.Parse(text)
	if err != nil {
		return fmt.Errorf("read %s: %w", c.File, err)
	}
	if c.DryRun && errors.Is(c.exists(), fs.ErrNotExist) { // the changes are those to an empty one
		if c.DataDir, err = os.MkdirTemp("", "opsbackend-dry-run-"); err != nil {
			return fmt.Errorf("make a directory for the dry run: %w", err)
		}
		defer os.RemoveAll(c.DataDir)
	}
	return c.create(ctx, e, func(b *service.Backend) error {
		var result inventory.Result
		err := b.Store().Write(ctx, func(q *query.Queries) (err error) {
			result, err = inventory.Apply(ctx, q, file, inventory.Options{
				Clock: e.Clock, Backend: b, Actor: &audit.Actor{ID: actor, IPAddress: audit.ServiceAddress},
			})
			if err == nil && c.DryRun {
				result.Secrets = nil // of webhooks that are not added
				err = errDryRun
			}
			return err
		})
		if err != nil && !errors.Is(err, errDryRun) {
			return fmt.Errorf("apply %s: %w", c.File, err)
		}
		return printResult(e.Out, result)
	})
}

// printResult writes a line for each row.
func printResult(w io.Writer, r inventory.Result) error {
	var text strings.Builder
	for _, c := range r.Changes {
		sign := "+"
		if len(c.Fields) > 0 {
			sign = "~"
		}
		fmt.Fprintf(&text, "%s %s %s", sign, c.Kind, c.Path)
		for _, field := range c.Fields {
			fmt.Fprintf(&text, "\n    %s", field)
		}
		text.WriteString("\n")
	}
	for _, kept := range r.Kept {
		fmt.Fprintf(&text, "= %s\n", kept)
	}
	for _, s := range r.Secrets {
		fmt.Fprintf(&text, "secret of subscriber %s: %s\n", s.ID, s.Secret)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func exportCommand(e Environment) *cobra.Command {
	var state bool
	c := databaseCommand(e, &cobra.Command{
		Use: "export", Short: "Print the teams, servers, monitors and status pages as a file for apply, without secrets " +
			"and tokens",
	}, func(ctx context.Context, b *service.Backend, _ []string) error {
		return b.Store().Read(ctx, func(q *query.Queries) error {
			text, err := inventory.Export(ctx, q, state)
			if err != nil {
				return err
			}
			_, err = e.Out.Write(text)
			return err
		})
	})
	c.Flags().BoolVar(&state, "state", false,
		"also what changes by itself, such as statuses and times; apply uses it for new rows only")
	return c
}

func schemaCommand(e Environment) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the file for apply", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := inventory.Schema()
			if err != nil {
				return err
			}
			_, err = e.Out.Write(text)
			return err
		},
	}
}
