package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"opsgate/cmd/internal/kit/duration"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

// minWindows is the number of the longest limit's windows that a record should have.
const minWindows = 3

// A suggestionText prints a suggestion.
type suggestionText struct {
	*demand.Suggestion

	about   demand.Summary
	command *suggest
	names   map[string]*tokenNames // by the id of a token
}

// yaml returns the limits, classes, teams and tokens of rate_limit, with their effect as comments.
func (s suggestionText) yaml() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The smallest limits that would have denied the tokens of each class at most %s of their requests on average, "+
		"without the\n# 1%% of tokens that they would have denied most (at least one of ten, or an outlier of three), computed from\n",
		s.command.DenyAtMost.text)
	fmt.Fprintf(&b, "# %d requests of %d tokens, a sample of %s,\n", s.Requests, s.Tokens, sampleText(s.about))
	fmt.Fprintf(&b, "# %s.\n", periodText(s.From, s.To))
	for _, warning := range s.warnings() {
		fmt.Fprintf(&b, "# warning: %s\n", warning)
	}
	b.WriteString("rate_limit:\n")
	section := ""
	for i := range s.Classes {
		c := &s.Classes[i]
		switch c.Assignment.Class {
		case ratelimit.ClassDefault:
			s.class(&b, c, "  ")
			continue
		case ratelimit.ClassTeam:
			enter(&b, &section, "teams")
			fmt.Fprintf(&b, "    %s:\n", quoted(c.Assignment.Teams[0]))
		case ratelimit.ClassToken:
			enter(&b, &section, "tokens")
			fmt.Fprintf(&b, "    %s:\n", quoted(c.Assignment.Tokens[0]))
		default:
			enter(&b, &section, "classes")
			fmt.Fprintf(&b, "    %s:\n", quoted(c.Assignment.Class))
			list(&b, "teams", c.Assignment.Teams)
			list(&b, "tokens", c.Assignment.Tokens)
		}
		override(&b, c.Assignment)
		s.class(&b, c, "      ")
	}
	return b.Bytes()
}

// enter begins a section of rate_limit if it is another one.
func enter(b *bytes.Buffer, section *string, name string) {
	if *section != name {
		fmt.Fprintf(b, "  %s:\n", name)
		*section = name
	}
}

// override prints what a class or an override has beside its limits.
func override(b *bytes.Buffer, a *ratelimit.Assignment) {
	if a.Owner != "" {
		fmt.Fprintf(b, "      owner: %s\n", quoted(a.Owner))
	}
	if a.Reason != "" {
		fmt.Fprintf(b, "      reason: %s\n", quoted(a.Reason))
	}
	if !a.Expires.IsZero() {
		fmt.Fprintf(b, "      expires: %s\n", a.Expires.Format(time.RFC3339))
	}
}

func list(b *bytes.Buffer, key string, ids []string) {
	if len(ids) == 0 {
		return
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = quoted(id)
	}
	fmt.Fprintf(b, "      %s: [%s]\n", key, strings.Join(texts, ", "))
}

// class prints the limits of a class: the suggested ones, or those in force if the record has no request of the class.
func (s suggestionText) class(b *bytes.Buffer, c *demand.ClassSuggestion, indent string) {
	inForce, limits := c.Assignment.Policy.Limits(), c.Limits
	if c.Requests == 0 {
		fmt.Fprintf(b, "%s# no request recorded: these are the limits in force\n", indent)
		limits = inForce
	} else {
		denied := c.DeniedRequests()
		fmt.Fprintf(b, "%s# would have denied %d of %d requests (%s), from %d of %d tokens; in force: %s\n", indent, denied, c.Requests,
			share(denied, c.Requests), len(c.Denied), c.Tokens, limitsText(inForce))
	}
	for _, t := range c.Denied[:min(len(c.Denied), s.command.Top)] {
		names := s.names[t.TokenID]
		fmt.Fprintf(b, "%s#   token %s of team %s: %d of %d requests denied\n", indent, quoted(named(t.TokenID, names.TokenName)),
			quoted(named(t.TeamID, names.TeamName)), t.Denied, t.Requests)
	}
	if n := len(c.Denied) - s.command.Top; n > 0 {
		fmt.Fprintf(b, "%s#   and %d more\n", indent, n)
	}
	fmt.Fprintf(b, "%slimits:\n", indent)
	for _, l := range limits {
		fmt.Fprintf(b, "%s  - {name: %s, requests: %d, per: %s", indent, quoted(l.Name), l.Requests, duration.Text(l.Per))
		if l.Shadow {
			b.WriteString(", shadow: true")
		}
		b.WriteString("}\n")
	}
}

func limitsText(limits []ratelimit.Limit) string {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = fmt.Sprintf("%d per %s", l.Requests, duration.Text(l.Per))
		if l.Shadow {
			texts[i] += " (shadow)"
		}
	}
	return strings.Join(texts, ", ")
}

// quoted returns a string of JSON, which is one of YAML on a line.
func quoted(s string) string {
	text, _ := json.Marshal(s) //nolint:errchkjson // a string never fails
	return string(text)
}

func (s suggestionText) warnings() (warnings []string) {
	if length := s.To.Sub(s.From); length < minWindows*s.Window {
		warnings = append(warnings, fmt.Sprintf("the record is shorter than %d times the longest limit, %s: real demand may need more",
			minWindows, duration.Text(s.Window)))
	}
	if s.about.MinSample < 1 {
		warnings = append(warnings, "tokens outside the sample may need more")
	}
	if s.about.Dropped > 0 {
		warnings = append(warnings, fmt.Sprintf("%d events are missing in the record: tokens may need more", s.about.Dropped))
	}
	return warnings
}
