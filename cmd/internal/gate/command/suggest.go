package command

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/kit/commandline"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

type suggest struct {
	recordFlags

	DenyAtMost percent
	Per        []time.Duration
	Top        int
}

func suggestCommand(e Environment) *cobra.Command {
	s := &suggest{}
	c := &cobra.Command{
		Use: "suggest", Short: "Print the smallest limits that would have denied at most a part of the recorded demand",
		Long: `Print the smallest limits that would have denied at most a part of the recorded demand.

Each token weighs equally, however many requests it has. In a class of ten tokens or more, the 1 % of tokens (at least one) that the limits
would deny the largest part of their requests cannot raise them; in one of three to nine, one that has ten times the requests of the next.`,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context(), e) },
	}
	flags := c.Flags()
	s.addTo(c)
	commandline.Text(flags, &s.DenyAtMost, "deny-at-most", "0.1%",
		"`PERCENT` of its requests that a token of a class may be denied, on average")
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
func (c *suggest) run(ctx context.Context, e Environment) error {
	if err := c.check(); err != nil {
		return err
	}
	loaded, err := c.loadAndWarn(e)
	if err != nil {
		return err
	}
	suggestion, about, err := readRecords(c.Demand, func(r *demand.Record) (*demand.Suggestion, error) {
		return demand.Suggest(r.Events(), demand.SuggestOptions{Policies: policiesAt(loaded), DenyAtMost: c.DenyAtMost.max, Per: c.Per})
	})
	if err != nil {
		return err
	}
	text := suggestionText{suggestion, about, c, make(map[string]*tokenNames)}
	var rows []namedRow
	for _, class := range suggestion.Classes {
		for _, t := range class.Denied[:min(len(class.Denied), c.Top)] {
			text.names[t.TokenID] = new(tokenNames)
			rows = append(rows, namedRow{t.TokenID, t.TeamID, text.names[t.TokenID]})
		}
	}
	if err := c.addNames(ctx, e, rows); err != nil {
		return err
	}
	_, err = e.Out.Write(text.yaml())
	return err
}
