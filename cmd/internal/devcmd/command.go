package devcmd

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"opsgate/cmd/internal/buildinfo"
	"opsgate/cmd/internal/commandline"
)

// An Environment is what the program has of the outside.
type Environment struct {
	Out, Err io.Writer
	// Variables are as os.Environ returns them.
	Variables []string
}

// commands is the grammar of the command line. The flags are those of the command that nobody has to name.
type commands struct {
	flags

	Serve serve `cmd:"" default:"1" help:"Serve the whole system until Ctrl-C; this is what happens without a command."`

	commandline.Commands
}

type flags struct {
	Listen      string `placeholder:"ADDR" help:"Address of the API (127.0.0.1:8080); port 0 takes a free one."`
	AdminListen string `placeholder:"ADDR" help:"Address of the admin page, metrics and health (127.0.0.1:9090)."`
	DataDir     string `placeholder:"DIR" help:"Keep the data here; demo data is laid into an empty directory. Without it, all is new."`
	Config      string `placeholder:"FILE" help:"Configuration of the gateway. What it says of upstreams is replaced."`
	Credentials string `placeholder:"FILE" help:"Write addresses and tokens here, as JSON, once requests are served."`
}

// Run runs the program with its arguments, without its name, and returns the exit code: 0 done, 1 failed, 2 wrong usage. It
// ends in order when ctx does.
func Run(ctx context.Context, arguments []string, environment Environment) int {
	var grammar commands
	return commandline.Program{
		Name:        "opsdev",
		Description: "The whole operations platform on this machine, with demo data. Not for anybody's real data.",
		About:       commandline.About{Build: buildinfo.Read()}, Out: environment.Out, Err: environment.Err,
	}.Run(ctx, &grammar, arguments, environment, &grammar.flags)
}

type serve struct{}

// Run serves until ctx ends, or until a hang-up where there is no configuration to read again: then it says that the terminal is
// gone.
func (serve) Run(ctx context.Context, e Environment, f *flags) error {
	hangUps := make(chan os.Signal, 1)
	if f.Config == "" {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
	} else {
		signal.Notify(hangUps, syscall.SIGHUP)
		defer signal.Stop(hangUps)
	}
	err := Serve(ctx, Options{
		Listen: f.Listen, AdminListen: f.AdminListen, DataDir: f.DataDir, Config: f.Config,
		Log: e.Err, Variables: e.Variables, HangUps: hangUps,
		Ready: func(s System) error {
			if f.Credentials != "" {
				if err := writeCredentials(f.Credentials, s); err != nil {
					return err
				}
			}
			_, err := io.WriteString(e.Out, welcome(s, f.DataDir))
			return err
		},
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // ended by hand before it served
	}
	return err
}
