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

	"opsgate/authn"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/kit/buildinfo"
	"opsgate/cmd/internal/kit/commandline"
)

// An Environment holds the outputs and the other external dependencies of the program.
type Environment struct {
	Out, Err io.Writer
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
	// Random is the source of tokens; nil means crypto/rand.
	Random io.Reader
}

// commands is the grammar of the command line.
type commands struct {
	Serve serve      `cmd:"" help:"Serve the internal services over gRPC until SIGTERM."`
	Team  teamGroup  `cmd:"" help:"Manage teams."`
	Token tokenGroup `cmd:"" help:"Manage API tokens."`

	Subscriber subscriberGroup `cmd:"" help:"Manage the subscribers of status pages."`
	Delivery   deliveryGroup   `cmd:"" help:"Manage the deliveries of notifications to subscribers."`

	commandline.Commands
}

// dataDir is the flag of every command that opens the database.
type dataDir struct {
	DataDir string `required:"" placeholder:"DIR" env:"OPSBACKEND_DATA_DIR" help:"Directory of the database. serve and team create create it."`
}

// tokenFormat is the flag of every command that creates tokens.
type tokenFormat struct {
	TokenPrefix string `default:"ops_" env:"OPSBACKEND_TOKEN_PREFIX" help:"Prefix of tokens, before live_ (${default})."`
}

// Validate is called by the parser.
func (f tokenFormat) Validate() error { return f.format().Validate() }

func (f tokenFormat) format() authn.TokenFormat { return authn.TokenFormat{Prefix: f.TokenPrefix} }

// Run runs the program with its arguments, without its name, and returns the exit code: 0 for success, 1 for failure, 2 for wrong usage.
// It stops gracefully when ctx ends.
func Run(ctx context.Context, arguments []string, environment Environment) int {
	if environment.Clock == nil {
		environment.Clock = time.Now
	}
	if environment.Random == nil {
		environment.Random = rand.Reader
	}
	return commandline.Program{
		Name:        "opsbackend",
		Description: "The reference operations backend: all internal services on one SQLite file.",
		About:       about(), Out: environment.Out, Err: environment.Err,
	}.Run(ctx, new(commands), arguments, environment)
}

// use opens an existing database, calls fn and closes the backend.
func (d dataDir) use(ctx context.Context, e Environment, fn func(*service.Backend) error) error {
	if _, err := os.Stat(filepath.Join(d.DataDir, store.FileName)); err != nil {
		return fmt.Errorf("no database in %s: %w", d.DataDir, err)
	}
	return d.create(ctx, e, fn)
}

// create does the same, and creates the database if it does not exist.
func (d dataDir) create(ctx context.Context, e Environment, fn func(*service.Backend) error) error {
	backend, err := service.Open(ctx, service.Options{DataDir: d.DataDir, Clock: e.Clock, WallClock: e.Clock})
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

// about returns the sections of the manual page other than the commands.
func about() commandline.About {
	return commandline.About{Build: buildinfo.Read(), Sections: []commandline.Section{
		{Title: "EXIT STATUS", Items: []commandline.Item{
			{Term: "0", Text: "Success."},
			{Term: "1", Text: "Failure; standard error has the reason."},
			{Term: "2", Text: "Wrong usage."},
		}},
	}}
}
