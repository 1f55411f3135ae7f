package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"opsgate/cmd/internal/dev/rehearsal"
	"opsgate/cmd/internal/kit/buildinfo"
	"opsgate/cmd/internal/kit/commandline"
)

// Environment is the output and the variables of the process.
type Environment struct {
	Out, Err io.Writer
	// Variables are as os.Environ returns them.
	Variables []string
}

// commands is the grammar of the command line. The flags belong to serve, the default command.
type commands struct {
	flags

	Serve serve `cmd:"" default:"1" help:"Serve the whole system until Ctrl-C. The default command."`

	commandline.Commands
}

type flags struct {
	Listen      string `placeholder:"ADDR" help:"Address of the API (127.0.0.1:8080); port 0 takes a free one."`
	AdminListen string `placeholder:"ADDR" help:"Address of the admin page, metrics and health (127.0.0.1:9090)."`
	InboxListen string `placeholder:"ADDR" help:"Address of the inbox, which shows what subscribers get: a loopback address (a free port)."`
	DataDir     string `placeholder:"DIR" help:"Keep the data here; an empty directory gets demo data. By default it is removed at the end."`
	Config      string `placeholder:"FILE" help:"Configuration of the gateway. Its upstreams are replaced."`
	Credentials string `placeholder:"FILE" help:"Write addresses and tokens to this file, as JSON, when the system is ready."`

	Still bool    `help:"Keep the demo data as it was inserted. By default it moves: agents report, monitors change, incidents open."`
	Speed float64 `default:"1" placeholder:"N" help:"Move the demo data N times as fast, 0.1 to 600 (${default}); as does its clock."`

	Rehearse bool    `help:"Disturb the API on purpose, and score the client at the end. Exit code 1 if the client failed an item."`
	Seed     *uint64 `placeholder:"N" help:"Seed of the moving data and of --rehearse (1); the same seed has the same events and faults."`
}

// Run runs the program with its arguments, without its name, and returns the exit code: 0 done, 1 failed, 2 wrong usage. It shuts down
// gracefully when ctx ends.
func Run(ctx context.Context, arguments []string, environment Environment) int {
	var grammar commands
	return commandline.Program{
		Name:        "opsdev",
		Description: "The whole operations platform on this machine, with demo data. Not for real data.",
		About:       commandline.About{Build: buildinfo.Read()}, Out: environment.Out, Err: environment.Err,
	}.Run(ctx, &grammar, arguments, environment, &grammar.flags)
}

type serve struct{}

// Run serves until ctx ends. SIGHUP reloads the configuration of --config; without one it ends the system, because the terminal was closed.
func (serve) Run(ctx context.Context, e Environment, f *flags) error {
	if err := f.check(); err != nil {
		return err
	}
	hangUps := make(chan os.Signal, 1)
	if f.Config == "" {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
	} else {
		signal.Notify(hangUps, syscall.SIGHUP)
		defer signal.Stop(hangUps)
	}
	var rehearsed *rehearsal.Rehearsal
	err := serveSystem(ctx, options{
		Listen: f.Listen, AdminListen: f.AdminListen, InboxListen: f.InboxListen, DataDir: f.DataDir, Config: f.Config,
		Log: e.Err, Variables: e.Variables, HangUps: hangUps,
		Still: f.Still, Speed: f.Speed, Rehearse: f.Rehearse, Seed: f.seed(),
		Ready: func(s system) error {
			rehearsed = s.Rehearsal
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
		return nil // interrupted before it was ready
	}
	if rehearsed == nil {
		return err
	}
	return errors.Join(err, report(rehearsed.Score(), e.Out))
}
