package command

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

type suggest struct {
	configFile

	Demand     []string        `required:"" sep:"none" placeholder:"FILE" help:"Record of demand, with FILE.1 beside it; repeat for others."`
	DenyAtMost percent         `default:"0.1%" placeholder:"PERCENT" help:"Part of each class's requests that may be denied (${default})."`
	Per        []time.Duration `placeholder:"LENGTH" help:"Lengths of the limits, for example 1s,1h, instead of those in the configuration."`
	Top        int             `default:"10" placeholder:"N" help:"Name N tokens of each class with the most denied requests (${default})."`
}

// Validate implements kong's check of a command's arguments.
func (c *suggest) Validate() error {
	if c.Top < 0 {
		return errors.New("--top must be 0 or more")
	}
	if len(c.Per) == 0 {
		return nil
	}
	limits := make([]ratelimit.Limit, len(c.Per))
	for i, per := range c.Per {
		limits[i] = ratelimit.Limit{Name: strconv.Itoa(i), Requests: 1, Per: per}
	}
	if _, err := ratelimit.NewPolicy(limits); err != nil {
		return fmt.Errorf("--per: %w", err)
	}
	return nil
}

// Run prints the smallest limits as a part of a configuration, with their effect as comments.
func (c *suggest) Run(e Environment) error {
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
