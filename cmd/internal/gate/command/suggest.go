package command

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/kit/commandline"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

type suggest struct {
	configFile

	Demand     []string
	DenyAtMost percent
	Per        []time.Duration
	Top        int
}

func suggestCommand(e Environment) *cobra.Command {
	s := &suggest{}
	c := &cobra.Command{
		Use: "suggest", Short: "Print the smallest limits that would have denied at most a part of the recorded demand",
		RunE: func(*cobra.Command, []string) error { return s.run(e) },
	}
	flags := c.Flags()
	s.addTo(flags)
	addDemand(c, &s.Demand)
	commandline.Text(flags, &s.DenyAtMost, "deny-at-most", "0.1%", "`PERCENT` of each class's requests that may be denied")
	flags.DurationSliceVar(&s.Per, "per", nil, "`LENGTH` of each limit, for example 1s,1h, instead of those in the configuration")
	flags.IntVar(&s.Top, "top", defaultTop, "name `N` tokens of each class with the most denied requests")
	return c
}

func (c *suggest) check() error {
	if err := checkTop(c.Top); err != nil {
		return err
	}
	if len(c.Per) == 0 {
		return nil
	}
	limits := make([]ratelimit.Limit, len(c.Per))
	for i, per := range c.Per {
		limits[i] = ratelimit.Limit{Name: strconv.Itoa(i), Requests: 1, Per: per}
	}
	if _, err := ratelimit.NewPolicy(limits); err != nil {
		return commandline.UsageError{Err: fmt.Errorf("--per: %w", err)}
	}
	return nil
}

// run prints the smallest limits as a part of a configuration, with their effect as comments.
func (c *suggest) run(e Environment) error {
	if err := c.check(); err != nil {
		return err
	}
	loaded, err := c.load(e, 0)
	if err != nil {
		return err
	}
	for _, warning := range loaded.Warnings {
		fmt.Fprintln(e.Err, "warning:", warning)
	}
	suggestion, about, err := c.suggestion(loaded)
	if err != nil {
		return err
	}
	if suggestion.Requests == 0 {
		return errors.New("the record has no requests")
	}
	_, err = e.Out.Write(suggestionText{suggestion, about, c}.yaml())
	return err
}

func (c *suggest) suggestion(loaded config.Loaded) (_ *demand.Suggestion, _ demand.Summary, err error) {
	record, err := demand.Open(c.Demand...)
	if err != nil {
		return nil, demand.Summary{}, err
	}
	defer func() { err = errors.Join(err, record.Close()) }()
	s, err := demand.Suggest(record.Events(), demand.SuggestOptions{
		Policies: policiesAt(loaded), DenyAtMost: c.DenyAtMost.max, Per: c.Per,
	})
	return s, record.Summary(), err
}
