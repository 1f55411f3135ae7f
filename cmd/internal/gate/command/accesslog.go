package command

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/accesslog"
	"opsgate/internal/commandline"
)

// getLog is how to get an access log.
const getLog = `  kubectl logs --selector app.kubernetes.io/name=opsgate --tail=-1 --since=24h | opsgate usage
  journalctl --unit opsgate --output cat --since yesterday | opsgate usage
  docker compose logs --no-log-prefix gateway | opsgate usage
  opsgate usage gateway-1.log gateway-1.log.1.gz gateway-2.log`

// aboutLogs describes the arguments of commands that read access logs.
const aboutLogs = `

An ACCESS-LOG has the lines of one or more gateways with log.format: json, in any order; it may be
compressed with gzip. Without one, or as -, it is standard input:

` + getLog

// logsOf returns the paths of the access logs that arguments name: standard input for none, unless
// it is a terminal.
func logsOf(e Environment, arguments []string) ([]string, error) {
	if len(arguments) > 0 {
		return arguments, nil
	}
	piped := e.In != nil
	if file, ok := e.In.(*os.File); ok {
		info, err := file.Stat()
		piped = err == nil && info.Mode()&os.ModeCharDevice == 0
	}
	if !piped {
		return nil, commandline.UsageError{Err: errors.New("there is no access log: name files, or pipe one in:\n\n" +
			getLog)}
	}
	return []string{"-"}, nil
}

func usageCommand(e Environment) *cobra.Command {
	var by string
	var asJSON bool
	c := &cobra.Command{
		Use:   "usage [ACCESS-LOG…|-]",
		Short: "Count the requests of an access log, their denials and refunds by team, token or operation",
		Long:  "Count the requests of an access log, their denials and refunds by team, token or operation." + aboutLogs,
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, arguments []string) error {
			paths, err := logsOf(e, arguments)
			if err != nil {
				return err
			}
			usage, err := accesslog.Count(paths, e.In, by)
			if err != nil {
				return err
			}
			return write(e.Out, asJSON, usage)
		},
	}
	commandline.Enum(c.Flags(), &by, "by", "team", "count by `KEY`: team, token or operation", "team", "token",
		"operation")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

type replay struct {
	configFile

	Suggest                    bool
	DenyAtMost, MaxNewlyDenied percent
	JSON                       bool
}

func replayCommand(e Environment) *cobra.Command {
	r := &replay{}
	c := &cobra.Command{
		Use:   "replay [ACCESS-LOG…|-]",
		Short: "Decide the requests of an access log under a configuration, or suggest limits for them",
		Long: `Decide the requests of an access log under a configuration, or suggest limits for them.

The suggested limits are the smallest, of the lengths in the configuration, that would have denied
the tokens of each class at most --deny-at-most of their requests on average. Each token weighs
equally, however many requests it has. In a class of ten tokens or more, the 1 % of tokens (at least
one) that the limits would deny the largest part of their requests cannot raise them; in one of
three to nine, one that has ten times the requests of the next.` +
			strings.ReplaceAll(aboutLogs, "opsgate usage", "opsgate replay --config new.yaml"),
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, arguments []string) error { return r.run(e, arguments) },
	}
	flags := c.Flags()
	r.addTo(flags)
	flags.BoolVar(&r.Suggest, "suggest", false, "suggest the smallest limits")
	commandline.Text(flags, &r.DenyAtMost, "deny-at-most", "0.1%",
		"with --suggest, `PERCENT` of its requests that a token may be denied")
	commandline.Text(flags, &r.MaxNewlyDenied, "max-newly-denied", "",
		"exit 1 if more than `PERCENT` of the requests would be newly denied")
	flags.BoolVar(&r.JSON, "json", false, "print JSON")
	return c
}

// run prints how the limits of the configuration would have decided the requests, or the smallest
// limits. It fails if the bound is exceeded.
func (c *replay) run(e Environment, arguments []string) error {
	paths, err := logsOf(e, arguments)
	if err != nil {
		return err
	}
	loaded, err := c.load(e, 0)
	for _, warning := range loaded.Warnings {
		fmt.Fprintln(e.Err, "warning:", warning)
	}
	if err != nil {
		return err
	}
	log, err := accesslog.Read(paths, e.In)
	if err != nil {
		return err
	}
	if c.Suggest {
		suggestion, err := log.Suggest(loaded, time.Now(), c.DenyAtMost.most)
		if err != nil {
			return err
		}
		return write(e.Out, c.JSON, suggestion)
	}
	report, err := log.Replay(loaded, time.Now())
	if err != nil {
		return err
	}
	err = write(e.Out, c.JSON, report)
	if most := c.MaxNewlyDenied; most.text != "" && float64(report.NewlyDenied)*100 > most.most*float64(report.Requests) {
		err = errors.Join(err,
			fmt.Errorf("--max-newly-denied=%s is exceeded: %d of %d requests", most.text, report.NewlyDenied, report.Requests))
	}
	return err
}

// A percent is a part of requests.
type percent struct {
	text string  // "" if it is not given
	most float64 // 0 to 100
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	most, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(most >= 0 && most <= 100) { // also refuses NaN
		return fmt.Errorf("must be 0%% to 100%%, not %q", text)
	}
	*p = percent{string(text), most}
	return nil
}
