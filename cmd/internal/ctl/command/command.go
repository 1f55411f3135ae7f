package command

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"opsgate/internal/commandline"
)

// Environment is what the process gives to the program.
type Environment struct {
	In       io.ReadCloser
	Out, Err io.Writer
	Terminal bool // whether Out is a terminal
	Width    int  // of the terminal; 0 if unknown
	// Variables are as os.Environ returns them.
	Variables []string
	// Clock and Sleep are for tests; nil for real time.
	Clock func() time.Time
	Sleep func(context.Context, time.Duration) error
}

// settings are the flags of all commands.
type settings struct {
	URL, TokenFile, Output string
	MaxWait, Timeout       time.Duration
	InsecureHTTP           bool
	JQ                     expression
}

// Output formats.
const (
	asTable = "table"
	asJSON  = "json"
	asID    = "id"
)

// program is what commands run with.
type program struct {
	settings
	Environment
	// *pacer by token, of all sessions: an agent's calls have one each, and the token file may get
	// another token
	pacers sync.Map
}

// Run runs the program with its arguments, without its name, and returns the exit code: see
// exitCodes.
func Run(ctx context.Context, arguments []string, environment Environment) int {
	if environment.Clock == nil {
		environment.Clock = time.Now
	}
	if environment.Sleep == nil {
		environment.Sleep = sleep
	}
	p := &program{Environment: environment}
	root, err := newRoot(p)
	if err != nil {
		fmt.Fprintln(environment.Err, "opsctl:", err)
		return exitFailed
	}
	return commandline.Run(ctx, root, arguments, environment.Out, environment.Err, func(err error) error {
		return p.present(err, arguments)
	})
}

// newRoot returns all commands.
func newRoot(p *program) (*cobra.Command, error) {
	root := &cobra.Command{
		Use:   "opsctl",
		Short: "The operations API from a terminal, from CI and for AI agents",
		Long: "The operations API from a terminal, from CI and for AI agents.\n\n" +
			"$OPSCTL_TOKEN or --token-file has the token, $OPSCTL_URL or --url the base URL. $HTTPS_PROXY, $HTTP_PROXY and " +
			"$NO_PROXY name\n" +
			"proxies, and $SSL_CERT_FILE the certificates to trust.\n\nExit codes:\n" + exitCodeText(),
	}
	flags := root.PersistentFlags()
	flags.StringVar(&p.URL, "url", "", "`URL` of the API (else $OPSCTL_URL), as https://api.example.com")
	flags.StringVar(&p.TokenFile, "token-file", "",
		"`FILE` with the API token (else $OPSCTL_TOKEN); others must not be able to read it")
	short := pflag.NewFlagSet("", pflag.ContinueOnError)
	commandline.Enum(short, &p.Output, "output", asTable, "table for people, json for programs, or only each id", asTable,
		asJSON, asID)
	short.Lookup("output").Shorthand = "o" // before the flag is added
	flags.AddFlagSet(short)
	commandline.Text(flags, &p.JQ, "jq", "", "print what this jq `EXPRESSION` returns for the JSON, whatever --output is")
	flags.DurationVar(&p.MaxWait, "max-wait", time.Minute, "longest time to repeat a failed request")
	flags.DurationVar(&p.Timeout, "timeout", 30*time.Second, "time for each attempt of a request")
	flags.BoolVar(&p.InsecureHTTP, "insecure-http", false,
		"send the token without encryption to a host that is not this machine")
	if err := addReads(root, p); err != nil {
		return nil, err
	}
	subcommand(root, "incidents").AddCommand(newCreate(p), newUpdate(p), newResolve(p))
	root.AddCommand(newRawCall(p), newServeMCP(p))
	return root, nil
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
