package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
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

It lists the changed keys, those that need a restart, the teams and tokens that get other limits,
and, from a running gateway, which of its busiest tokens and of the tokens that a configuration
names have already used more than their new limits or are blocked by them (over). Usage is unknown
if a limit has a new length or Redis is not in use, and unread if the gateway did not return it
within --timeout. Values of variables and flags of the running gateway apply to the file too.
Secrets are not compared, but that one is set. Run it where the files and secrets that the file
names can be read.

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
	Unknown []string `json:"usage_unknown"` // tokens of which no usage is known in the length of a new limit
	Unread  []string `json:"usage_unread"`  // tokens that the gateway did not return in time, with the first error

	// names by id, and the teams and classes of tokens, as the gateway has cached them
	names, teams, classes map[string]string
}

func (r *diffReport) empty() bool { return len(r.Keys)+len(r.Restart)+len(r.Limits) == 0 }

func (c *diff) run(ctx context.Context, e Environment) (r diffReport, err error) {
	r = diffReport{Keys: []string{}, Restart: []string{}, Limits: []string{}, Over: []string{}, Unknown: []string{},
		Unread: []string{}}
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
	both, err := r.compare(before, after)
	if err != nil || len(r.Limits) == 0 {
		return r, err
	}
	if err := c.findOver(ctx, client, &r, both); err != nil {
		return r, err
	}
	r.setLimits(both) // now with names and teams
	return r, nil
}

// loadBoth returns the configuration of the gateway, and that which it would have with the file:
// with its own variables and flags, not those of this process.
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

// A limitsChange is the policies before and after, with the classes, teams and tokens that either
// configuration names.
type limitsChange struct {
	old, next              *ratelimit.Policies
	classes, teams, tokens []string
}

// compare compares two configurations.
func (r *diffReport) compare(before, after config.Loaded) (both limitsChange, err error) {
	r.Keys = append(r.Keys, config.Changes(before, after)...)
	for _, problem := range config.RestartProblems(before, after) {
		r.Restart = append(r.Restart, problem.Error())
	}
	now := time.Now()
	both = limitsChange{teams: namedTeams(before, after), tokens: namedTokens(before, after)}
	for _, c := range []config.Loaded{before, after} {
		both.classes = slices.AppendSeq(both.classes, maps.Keys(c.RateLimit.Classes))
	}
	slices.Sort(both.classes)
	both.classes = slices.Compact(both.classes)
	if both.old, err = config.NewPolicies(before, now, nil); err != nil {
		return both, err
	}
	if both.next, err = config.NewPolicies(after, now, nil); err != nil {
		return both, err
	}
	r.setLimits(both)
	return both, nil
}

// setLimits sets Limits. Those of a team precede those of a class, so that the team of a token
// matters, if it is known.
func (r *diffReport) setLimits(both limitsChange) {
	r.Limits = []string{}
	line := func(what, team, token, class, more string) {
		was, is := both.old.For(team, token, class), both.next.For(team, token, class)
		if a, b := assignmentText(was), assignmentText(is); a != b {
			if was.Class != ratelimit.ClassToken {
				a += more
			}
			if is.Class != ratelimit.ClassToken {
				b += more
			}
			r.Limits = append(r.Limits, what+": "+a+", now "+b)
		}
	}
	line("by default", "", "", "", "")
	for _, class := range both.classes {
		line("class "+class, "", "", class, "")
	}
	for _, team := range both.teams {
		line("team "+named(team, r.names[team]), team, "", "", "")
	}
	for _, token := range both.tokens {
		more := ""
		if r.teams[token] == "" && len(both.teams) > 0 {
			more = " or those of its team"
		}
		line("token "+named(token, r.names[token]), r.teams[token], token, r.classes[token], more)
	}
}

func assignmentText(a *ratelimit.Assignment) string {
	var texts []string
	limits := slices.SortedFunc(slices.Values(a.Policy.Limits()),
		func(x, y ratelimit.Limit) int { return cmp.Compare(x.Per, y.Per) })
	for _, l := range limits {
		text := strconv.Itoa(l.Requests) + " in " + config.DurationText(l.Per)
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

// findOver adds the tokens that have used more than their new limits, and sets the names and teams
// that the gateway has cached. It reads only tokens whose limits change, and stops at the end of
// ctx: each read scans the gateway's cache.
func (c *diff) findOver(ctx context.Context, client *adminClient, r *diffReport, both limitsChange) error {
	var busy admin.Busy
	if err := client.read(ctx, "/admin/limits?n="+strconv.Itoa(c.Top), &busy); err != nil {
		return fmt.Errorf("get the busiest tokens: %w", err)
	}
	ids := slices.Concat(both.teams, both.tokens)
	names, err := client.names(ctx, ids[:min(len(ids), admin.MaxNames)])
	if err != nil {
		return fmt.Errorf("get the names: %w", err)
	}
	r.names, r.teams, r.classes = make(map[string]string), make(map[string]string), make(map[string]string)
	maps.Copy(r.names, names)
	tokens := slices.Clone(both.tokens) // sorting must not change those
	for _, b := range busy.Tokens {
		tokens, r.teams[b.TokenID] = append(tokens, b.TokenID), b.TeamID
		r.names[b.TokenID], r.classes[b.TokenID] = b.TokenName, b.LimitClass
	}
	slices.Sort(tokens)
	for _, token := range slices.Compact(tokens) {
		team := r.teams[token]
		class := r.classes[token]
		was, is := both.old.For(team, token, class), both.next.For(team, token, class)
		if team != "" && assignmentText(was) == assignmentText(is) {
			continue
		}
		var now admin.TokenLimits
		err := client.read(ctx, limitsTarget(token, team), &now)
		switch who := "token " + named(token, r.names[token]); {
		case err == nil:
			r.teams[token], r.classes[token] = now.Token.TeamID, now.Token.LimitClass
			r.addOver(who, now, both.next.For(now.Token.TeamID, token, now.Token.LimitClass))
		case len(r.Unread) == 0:
			r.Unread = append(r.Unread, who+": "+err.Error())
		default:
			r.Unread = append(r.Unread, who)
		}
	}
	return nil
}

func (r *diffReport) addOver(who string, now admin.TokenLimits, next *ratelimit.Assignment) {
	if _, blocked := next.Policy.Blocked(now.At); blocked {
		r.Over = append(r.Over, who+": blocked")
		return
	}
	unknown := false
	for _, l := range next.Policy.Limits() {
		used, known, held := -1, false, false // held: the token could not send more before either
		for _, old := range now.Limits {
			// else it is a share
			if old.Per == l.Per.Seconds() && old.Remaining != nil && now.Store.Mode != ratelimit.ModeLocal {
				used, known = max(used, old.Requests-*old.Remaining), true
				held = held || !old.Shadow && old.Requests <= l.Requests
			}
		}
		unknown = unknown || !known
		if !l.Shadow && !held && used >= l.Requests {
			r.Over = append(r.Over, fmt.Sprintf("%s: %d used of %d in %s", who, used, l.Requests, config.DurationText(l.Per)))
		}
	}
	if unknown {
		r.Unknown = append(r.Unknown, who)
	}
}

// print prints the report. It returns errChanges if there are changes, and a refusedError if it
// cannot be written.
func (c *diff) print(e Environment, r diffReport) error {
	var text bytes.Buffer
	if err := write(&text, c.JSON, r); err != nil {
		return refusedError{err}
	}
	if text.Len() == 0 {
		text.WriteString("nothing changes\n")
	}
	if _, err := text.WriteTo(e.Out); err != nil {
		return refusedError{err}
	}
	if r.empty() {
		return nil
	}
	return errChanges
}
