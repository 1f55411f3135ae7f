package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"opsgate/internal/commandline"
)

// Environment is the output and the variables of the process.
type Environment struct {
	Out, Err io.Writer // safe for concurrent use
	// Variables are as os.Environ returns them.
	Variables []string
}

// flags are those of serve, the command without a name.
type flags struct {
	Listen, AdminListen string // override the configuration; "" for its addresses
	DataDir             string // "" for data that is removed at the end
	Config              string // path of a gateway configuration; "" for the defaults
	Credentials         string // a file; "" for none
	SMTP, Webhook       string // where notifications are sent; "" to only print them

	Still   bool    // keep the demo data as it is
	Disturb percent // the share of requests that are disturbed
	Seed    uint64  // of the moving demo data and of the disturbances
}

// A percent is a share of 0 to 100 %.
type percent float64

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	share, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(share >= 0 && share <= 100) { // also refuses NaN
		return fmt.Errorf("must be 0%% to 100%%, not %q", text)
	}
	*p = percent(share)
	return nil
}

func (f *flags) addTo(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.Listen, "listen", "", "`ADDR` of the API (127.0.0.1:8080); port 0 takes a free one")
	flags.StringVar(&f.AdminListen, "admin-listen", "", "`ADDR` of the admin page, metrics and health (127.0.0.1:9090)")
	flags.StringVar(&f.DataDir, "data-dir", "",
		"keep the data in `DIR`; an empty one gets demo data. By default it is removed at the end")
	flags.StringVar(&f.Config, "config", "", "configuration `FILE` of the gateway. Its upstreams are replaced")
	flags.StringVar(&f.Credentials, "credentials", "",
		"write addresses and tokens to this `FILE`, as JSON, when the system is ready")
	flags.StringVar(&f.SMTP, "smtp", "", "also send emails to the SMTP server at `ADDR`, host:port, without TLS")
	flags.StringVar(&f.Webhook, "webhook", "", "also send webhooks to `URL`")
	flags.BoolVar(&f.Still, "still", false,
		"keep the demo data as it was inserted. By default it moves: agents report, monitors change, incidents open")
	commandline.Text(flags, &f.Disturb, "disturb", "0%",
		"answer this `PERCENT` of requests with 429, 503 or 504, late, or not at all, by --seed")
	flags.Uint64Var(&f.Seed, "seed", 1, "seed `N` of the moving data and of --disturb")
}

// New returns the command line of the program.
func New(e Environment) *cobra.Command {
	program := serveCommand(e)
	program.Use, program.Short = "opsdev",
		"The whole operations platform on this machine, with demo data. Not for real data"
	program.Long = program.Short + `.

Without a command it serves until Ctrl-C. Exit codes: 0 done, 1 failed, with the reason on standard error, 2 wrong usage.`
	program.AddCommand(serveCommand(e), conformanceCommand(e))
	return program
}

// Run runs the program with its arguments, without its name, and returns the exit code: 0 done, 1
// failed, 2 wrong usage. It shuts down gracefully when ctx ends.
func Run(ctx context.Context, arguments []string, e Environment) int {
	return commandline.Run(ctx, New(e), arguments, e.Out, e.Err)
}

func serveCommand(e Environment) *cobra.Command {
	f := &flags{}
	c := &cobra.Command{
		Use: "serve", Short: "Serve the whole system until Ctrl-C. The default command",
		RunE: func(c *cobra.Command, _ []string) error {
			if f.Still && f.Disturb == 0 && c.Flags().Changed("seed") {
				return commandline.UsageError{Err: errors.New("--seed has no effect with --still, except with --disturb")}
			}
			return f.serve(c.Context(), e)
		},
	}
	f.addTo(c)
	return c
}

// serve serves until ctx ends. SIGHUP reloads the configuration of --config; without one it ends
// the system, because the terminal was closed.
func (f *flags) serve(ctx context.Context, e Environment) error {
	senders, err := f.senders(e.Out)
	if err != nil {
		return commandline.UsageError{Err: err}
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
	err = serveSystem(ctx, options{
		flags: *f, Senders: senders, Log: e.Err, Variables: e.Variables, HangUps: hangUps,
		Ready: func(s system) error {
			if f.Credentials != "" {
				if err := writeCredentials(f.Credentials, s); err != nil {
					return err
				}
			}
			_, err := io.WriteString(e.Out, welcome(s, *f))
			return err
		},
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // interrupted before it was ready
	}
	return err
}
