package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/policies"
	"opsgate/cmd/internal/kit/duration"
	"opsgate/ratelimit"
)

// A refusedError is why two configurations cannot be compared.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// ExitCode returns 2.
func (refusedError) ExitCode() int { return 2 }

// errChanges is returned after the changes are printed. It has exit code 1.
var errChanges = errors.New("the configurations differ")

type diff struct {
	queryFlags

	With string
	Top  int
}

func diffCommand(e Environment) *cobra.Command {
	d := &diff{}
	c := &cobra.Command{
		Use: "diff", Short: "Show what a configuration would change in a running gateway, or against another file",
		Long: `Show what a configuration would change in a running gateway, or with --with against another file, without a gateway.

It lists the changed keys, those that need a restart, the teams and tokens that get other limits, and, from a running gateway, which of
its busiest tokens and of the tokens that a configuration names have already used more than their new limits. Values of variables and
flags of the running gateway apply to the file too. Secrets are not compared, but that one is set. Run it where the files and secrets
that the file names can be read.

Exit codes: 0 nothing changes, 1 something does, 2 the file is refused or there is nothing to compare it with.`,
		RunE: func(c *cobra.Command, _ []string) error {
			report, err := d.run(c.Context(), e)
			if err != nil {
				return refusedError{err}
			}
			return d.print(e, report)
		},
	}
	d.addTo(c)
	c.Flags().StringVar(&d.With, "with", "", "compare with this `FILE` instead of a running gateway")
	c.Flags().IntVar(&d.Top, "top", 100, "ask for the usage of the `N` busiest tokens")
	c.MarkFlagsMutuallyExclusive("with", "admin")
	return c
}

// A diffReport is what a configuration changes.
type diffReport struct {
	Keys    []string `json:"keys"`
	Restart []string `json:"restart"`
	Limits  []string `json:"limits"`
	Over    []string `json:"over"`
	Unknown int      `json:"tokens_unknown"` // tokens with a new limit of a length of which no usage is known
}

func (r *diffReport) empty() bool { return len(r.Keys)+len(r.Restart)+len(r.Limits) == 0 }

func (c *diff) run(ctx context.Context, e Environment) (r diffReport, err error) {
	r = diffReport{Keys: []string{}, Restart: []string{}, Limits: []string{}, Over: []string{}}
	if c.With != "" {
		before, err := configFile{Config: c.With}.load(e, 0)
		if err != nil {
			return r, err
		}
		after, err := c.load(e, 0)
		if err != nil {
			return r, err
		}
		_, err = r.compare(before, after)
		return r, err
	}
	client, ctx, done, err := c.client(ctx, e)
	if err != nil {
		return r, err
	}
	defer done()
	var running admin.Configuration
	if err := client.read(ctx, "/admin/config", &running); err != nil {
		return r, fmt.Errorf("get the configuration: %w", err)
	}
	before, after, err := c.loadBoth(e, running.Values)
	if err != nil {
		return r, err
	}
	next, err := r.compare(before, after)
	if err != nil || len(r.Limits) == 0 {
		return r, err
	}
	return r, c.findOver(ctx, client, &r, next, namedTokens(before, after))
}

// loadBoth returns the configuration of the gateway, and that which it would have with the file: with its own variables and flags, not
// those of this process.
func (c *diff) loadBoth(e Environment, values []config.Value) (before, after config.Loaded, err error) {
	variables := slices.DeleteFunc(slices.Clone(e.Variables), func(v string) bool {
		return strings.HasPrefix(v, "OPSGATE_") && !strings.HasPrefix(v, config.PathVariable+"=")
	})
	after, err = config.Load(config.Options{Path: c.Config, Environment: variables, Running: values})
	if err != nil {
		return before, after, err
	}
	if before, err = config.FromEffective(values, after); err != nil {
		err = fmt.Errorf("read the configuration of the gateway: %w", err)
	}
	return before, after, err
}

// compare compares two configurations, and returns the new policies.
func (r *diffReport) compare(before, after config.Loaded) (*ratelimit.Policies, error) {
	r.Keys = append(r.Keys, config.Changes(before, after)...)
	for _, problem := range config.RestartProblems(before, after) {
		r.Restart = append(r.Restart, problem.Error())
	}
	now := time.Now()
	old, err := policies.New(before, now, nil)
	if err != nil {
		return nil, err
	}
	next, err := policies.New(after, now, nil)
	if err != nil {
		return nil, err
	}
	line := func(what string, was, is *ratelimit.Assignment) {
		if a, b := assignmentText(was), assignmentText(is); a != b {
			r.Limits = append(r.Limits, what+": "+a+", now "+b)
		}
	}
	line("by default", old.For("", ""), next.For("", ""))
	for _, team := range namedTeams(before, after) {
		line("team "+team, old.For(team, ""), next.For(team, ""))
	}
	for _, token := range namedTokens(before, after) {
		line("token "+token, old.For("", token), next.For("", token))
	}
	return next, nil
}

func assignmentText(a *ratelimit.Assignment) string {
	var texts []string
	limits := slices.SortedFunc(slices.Values(a.Policy.Limits()), func(x, y ratelimit.Limit) int { return cmp.Compare(x.Per, y.Per) })
	for _, l := range limits {
		text := strconv.Itoa(l.Requests) + " in " + duration.Text(l.Per)
		if l.Shadow {
			text += " in shadow"
		}
		texts = append(texts, text)
	}
	return a.Class + " (" + strings.Join(texts, ", ") + ")"
}

func namedTeams(configs ...config.Loaded) []string {
	return namedIn(configs, func(a config.Assignment) []string { return a.Teams })
}

func namedTokens(configs ...config.Loaded) []string {
	return namedIn(configs, func(a config.Assignment) []string { return a.Tokens })
}

func namedIn(configs []config.Loaded, ids func(config.Assignment) []string) (list []string) {
	for _, c := range configs {
		for _, a := range c.RateLimit.Assignments() {
			list = append(list, ids(a)...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// findOver adds the tokens that have used more than their new limits.
func (c *diff) findOver(ctx context.Context, client *adminClient, r *diffReport, next *ratelimit.Policies, tokens []string) error {
	var busy admin.Busy
	if err := client.read(ctx, "/admin/limits?n="+strconv.Itoa(c.Top), &busy); err != nil {
		return fmt.Errorf("get the busiest tokens: %w", err)
	}
	teams := make(map[string]string)
	for _, b := range busy.Tokens {
		tokens, teams[b.TokenID] = append(tokens, b.TokenID), b.TeamID
	}
	slices.Sort(tokens)
	for _, token := range slices.Compact(tokens) {
		target := "/admin/limits/" + url.PathEscape(token)
		if team := teams[token]; team != "" {
			target += "?" + url.Values{"team_id": {team}}.Encode()
		}
		var now admin.TokenLimits
		if err := client.read(ctx, target, &now); err != nil {
			return fmt.Errorf("get the limits of token %s: %w", token, err)
		}
		r.addOver(token, now, next.For(now.Token.TeamID, token))
	}
	return nil
}

func (r *diffReport) addOver(token string, now admin.TokenLimits, next *ratelimit.Assignment) {
	unknown := false
	for _, l := range next.Policy.Limits() {
		used, known, held := -1, false, false // held: the token could not send more before either
		for _, old := range now.Limits {
			if old.Per == l.Per.Seconds() && old.Remaining != nil {
				used, known = max(used, old.Requests-*old.Remaining), true
				held = held || !old.Shadow && old.Requests <= l.Requests
			}
		}
		unknown = unknown || !known
		if !l.Shadow && !held && used >= l.Requests {
			r.Over = append(r.Over, fmt.Sprintf("token %s: %d used of %d in %s", token, used, l.Requests, duration.Text(l.Per)))
		}
	}
	if unknown {
		r.Unknown++
	}
}

// print prints the report. It returns errChanges if there are changes.
func (c *diff) print(e Environment, r diffReport) error {
	if c.JSON {
		if err := writeJSON(e.Out, r); err != nil {
			return err
		}
	} else {
		r.write(e)
	}
	if r.empty() {
		return nil
	}
	return errChanges
}

func (r *diffReport) write(e Environment) {
	if r.empty() {
		fmt.Fprintln(e.Out, "nothing changes")
		return
	}
	for _, part := range []struct {
		title string
		lines []string
	}{
		{"Changed keys", r.Keys}, {"Needs a restart", r.Restart}, {"Other limits", r.Limits}, {"Already over their new limits", r.Over},
	} {
		if len(part.lines) > 0 {
			fmt.Fprintf(e.Out, "%s:\n  %s\n", part.title, strings.Join(part.lines, "\n  "))
		}
	}
	if r.Unknown > 0 {
		fmt.Fprintf(e.Out, "For %d tokens, usage of a limit with a new length is not known.\n", r.Unknown)
	}
}
