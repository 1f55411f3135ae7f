package backendcmd

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"time"

	"opsgate/authn"
	"opsgate/cmd/internal/buildinfo"
	"opsgate/cmd/internal/commandline"
	"opsgate/cmd/internal/refbackend"
)

// An Environment is what the program has of the outside.
type Environment struct {
	Out, Err io.Writer
	// Clock tells the time; nil means the system's.
	Clock func() time.Time
	// Random is what tokens are made of; nil means the system's secure source.
	Random io.Reader
}

// commands is the grammar of the command line.
type commands struct {
	Serve serve      `cmd:"" help:"Serve the internal services over gRPC until SIGTERM."`
	Team  teamGroup  `cmd:"" help:"Look after teams."`
	Token tokenGroup `cmd:"" help:"Look after API tokens."`

	commandline.Commands
}

// dataDir is what every command that touches the data needs.
type dataDir struct {
	DataDir string `required:"" placeholder:"DIR" env:"OPSBACKEND_DATA_DIR" help:"Directory of the database, made if need be."`
}

// tokenFormat is what every command that makes or takes tokens needs.
type tokenFormat struct {
	TokenPrefix string `default:"ops_" env:"OPSBACKEND_TOKEN_PREFIX" help:"What tokens begin with (${default})."`
}

// Validate is called by the parser.
func (f tokenFormat) Validate() error { return f.format().Validate() }

func (f tokenFormat) format() authn.TokenFormat { return authn.TokenFormat{Prefix: f.TokenPrefix} }

// Run runs the program with its arguments, without its name, and returns the exit code: 0 done, 1 failed, 2 wrong usage. It
// ends early, and gracefully, when ctx does.
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

// use opens the backend for as long as fn runs.
func (d dataDir) use(ctx context.Context, e Environment, fn func(*refbackend.Backend) error) error {
	backend, err := refbackend.Open(ctx, refbackend.Options{DataDir: d.DataDir, Clock: e.Clock})
	if err != nil {
		return err
	}
	return errors.Join(fn(backend), backend.Close())
}

// list puts words into one cell of a table.
func list(words []string) string {
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ",")
}

// about returns what the manual page says beside the commands.
func about() commandline.About {
	return commandline.About{Build: buildinfo.Read(), Sections: []commandline.Section{
		{Title: "EXIT STATUS", Items: []commandline.Item{
			{Term: "0", Text: "Done."},
			{Term: "1", Text: "Failed; standard error says why."},
			{Term: "2", Text: "Wrong usage."},
		}},
	}}
}
