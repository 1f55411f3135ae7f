package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store"
	"opsgate/internal/commandline"
)

// An Environment holds the outputs and the other external dependencies of the program.
type Environment struct {
	Out, Err io.Writer
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
	// Random is the source of tokens; nil means crypto/rand.
	Random io.Reader
}

// dataDir is the flag of every command that opens the database.
type dataDir struct{ DataDir string }

func (d *dataDir) addTo(c *cobra.Command) {
	c.Flags().StringVar(&d.DataDir, "data-dir", "",
		"`DIR` of the database ($OPSBACKEND_DATA_DIR). serve, apply and team create create it")
	commandline.Required(c, "data-dir")
	commandline.Variable(c.Flags(), "data-dir", "OPSBACKEND_DATA_DIR")
}

// tokenFormat is the flag of every command that creates tokens.
type tokenFormat struct{ authn.TokenFormat }

func (f *tokenFormat) addTo(c *cobra.Command) {
	c.Flags().StringVar(&f.Prefix, "token-prefix", "ops_", "`PREFIX` of tokens, before live_ ($OPSBACKEND_TOKEN_PREFIX)")
	commandline.Variable(c.Flags(), "token-prefix", "OPSBACKEND_TOKEN_PREFIX")
}

// New returns the command line of the program. Clock and Random must be set.
func New(e Environment) *cobra.Command {
	program := &cobra.Command{
		Use: "opsbackend", Short: "The reference operations backend: all internal services on one SQLite file",
		Long: `The reference operations backend: all internal services on one SQLite file.

Exit codes: 0 done, 1 failed, with the reason on standard error, 2 wrong usage.`,
	}
	program.AddCommand(
		serveCommand(e), applyCommand(e), exportCommand(e), schemaCommand(e), backupCommand(e), verifyCommand(e),
		group("team", "Manage teams", teamCreateCommand(e), teamListCommand(e), teamSetPlanCommand(e)),
		group("token", "Manage API tokens", tokenCreateCommand(e), tokenMintCommand(e), tokenListCommand(e),
			tokenRevokeCommand(e)),
		group("subscriber", "Manage the subscribers of status pages",
			subscriberAddCommand(e), subscriberListCommand(e), subscriberRemoveCommand(e), rotateSecretCommand(e)),
		group("delivery", "Manage the deliveries of notifications to subscribers", deliveryListCommand(e),
			deliveryRetryCommand(e)),
	)
	return program
}

func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short}
	c.AddCommand(commands...)
	return c
}

// Run runs the program with its arguments, without its name, and returns the exit code: 0 for
// success, 1 for failure, 2 for wrong usage. It stops gracefully when ctx ends.
func Run(ctx context.Context, arguments []string, environment Environment) int {
	if environment.Clock == nil {
		environment.Clock = time.Now
	}
	if environment.Random == nil {
		environment.Random = rand.Reader
	}
	return commandline.Run(ctx, New(environment), arguments, environment.Out, environment.Err)
}

// databaseCommand completes a command that uses an existing database.
func databaseCommand(
	e Environment, c *cobra.Command, run func(ctx context.Context, b *service.Backend, arguments []string) error,
) *cobra.Command {
	var dir dataDir
	dir.addTo(c)
	c.RunE = func(c *cobra.Command, arguments []string) error {
		return dir.use(c.Context(), e, func(b *service.Backend) error { return run(c.Context(), b, arguments) })
	}
	return c
}

// use opens an existing database, calls fn and closes the backend.
func (d dataDir) use(ctx context.Context, e Environment, fn func(*service.Backend) error) error {
	if err := d.exists(); err != nil {
		return err
	}
	return d.create(ctx, e, fn)
}

// exists returns an error if there is no database.
func (d dataDir) exists() error {
	if _, err := os.Stat(filepath.Join(d.DataDir, store.FileName)); err != nil {
		return fmt.Errorf("no database in %s: %w", d.DataDir, err)
	}
	return nil
}

// create does the same, and creates the database if it does not exist.
func (d dataDir) create(ctx context.Context, e Environment, fn func(*service.Backend) error) error {
	backend, err := service.Open(ctx, service.Options{DataDir: d.DataDir, Clock: e.Clock})
	if err != nil {
		return err
	}
	return errors.Join(fn(backend), backend.Close())
}

// list formats words for one cell of a table.
func list(words []string) string {
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ",")
}
