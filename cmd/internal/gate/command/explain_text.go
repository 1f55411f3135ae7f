package command

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/kit/duration"
	"opsgate/gateway"
	"opsgate/ratelimit"
)

// writeExplanation prints the response and its reason in one line, then the checks and the state that they depend on.
func writeExplanation(t table, x admin.Explanation) {
	t.row(x.Method + " " + x.Path + ": " + verdict(x))
	t.row()
	t.row("CHECK", "OUTCOME", "DETAIL")
	for _, c := range x.Checks {
		t.row(c.Name, c.Outcome, c.Detail)
	}
	t.row()
	writeLimits(t, x.Limits)
	t.row()
	t.row("token", tokenText(x.TokenID, x.Token))
	writePolicy(t, x.TokenState)
	if r := x.Route; r != nil {
		t.row("route", fmt.Sprintf("%s (%s %s), scope %s", r.ID, r.Method, r.Path, cmp.Or(r.Scope, "none")))
	}
	if s := x.Service; s != nil {
		t.row("service", s.Name+", "+serviceText(*s))
	}
	t.row("identity", serviceText(x.Identity))
	t.row("config", "version "+x.Version)
	t.row("scope", admin.ThisGateway)
}

// verdict describes the response and its reason.
func verdict(x admin.Explanation) string {
	a := x.Answer
	if a.FailedCheck != "" {
		text := fmt.Sprintf("%d %s, because of %s: %s", a.Status, a.Code, a.FailedCheck, failure(x))
		if set := exhausted(x.Limits); a.Status == http.StatusTooManyRequests && len(set) > 0 {
			text += " (" + strings.Join(set, ", ") + ")"
		}
		if a.RetryAfter > 0 {
			text += fmt.Sprintf("; retry after %d s", a.RetryAfter)
		}
		return text
	}
	var unknown []string
	for _, c := range x.Checks {
		if c.Outcome == gateway.Unknown && c.Name != "service" { // the response of a service is never known
			unknown = append(unknown, c.Name)
		}
	}
	what := "not refused"
	if len(unknown) > 0 {
		what += " by what is known"
	}
	if x.Service != nil {
		what += ", reaches " + x.Service.Name + " (" + x.Service.State + ")"
	}
	if len(unknown) > 0 {
		what += "; unknown: " + strings.Join(unknown, ", ")
	}
	return what
}

// failure returns the detail of the check that determines the response. It has more than the response's text if a token, a parameter or a
// service is the reason.
func failure(x admin.Explanation) string {
	for _, c := range x.Checks {
		if c.Name == x.Answer.FailedCheck && c.Outcome == gateway.Refuses {
			return c.Detail
		}
	}
	return x.Answer.Text
}

// exhausted returns the origins of limits with no requests remaining.
func exhausted(limits []admin.Limit) (origins []string) {
	for _, l := range limits {
		if !l.Shadow && l.Remaining != nil && *l.Remaining == 0 {
			origins = append(origins, l.Origin)
		}
	}
	return origins
}

// A table aligns columns.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)} }

// row writes the cells of a row. A row without cells separates blocks of rows.
func (t table) row(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }

func writeLimits(t table, limits []admin.Limit) {
	t.row("LIMIT", "REQUESTS", "LEFT", "MORE IN", "SET AT")
	for _, l := range limits {
		left, more := "unknown", "unknown"
		if l.Remaining != nil {
			left = strconv.Itoa(*l.Remaining)
		}
		if l.Reset != nil {
			more = secondsText(*l.Reset)
		}
		name := l.Name
		if l.Shadow {
			name += " (shadow)"
		}
		t.row(name, fmt.Sprintf("%d per %s", l.Requests, secondsText(l.Per)), left, more, l.Origin)
	}
}

func writePolicy(t table, s admin.TokenState) {
	p := s.Policy
	policy := fmt.Sprintf("%s, set by %s (%s)", p.Class, p.Key, p.Origin)
	if p.Owner != "" {
		policy += ", owner: " + p.Owner
	}
	if p.Reason != "" {
		policy += ", reason: " + p.Reason
	}
	if p.Expires != nil {
		policy += ", until " + p.Expires.Format(time.RFC3339)
	}
	if p.TeamUnknown {
		policy += "; another may hold, as the team is not known"
	}
	t.row("policy", policy)
	store := string(s.Store.Mode) + shareText(s.Store) + breakerText(s.Store.Breaker)
	if s.Store.Since != nil {
		store += ", since " + s.Store.Since.Format(time.RFC3339)
	}
	if s.Store.Error != "" {
		store += ": " + s.Store.Error
	}
	t.row("store", store)
}

// shareText describes the share of each limit that one gateway admits in local mode.
func shareText(s admin.Store) string {
	switch {
	case s.Mode != ratelimit.ModeLocal:
		return ""
	case s.Replicas == 1:
		return ": this is the only gateway"
	}
	return fmt.Sprintf(": each of %d gateways admits ceil(remaining/%[1]d), LEFT is the share of this one", s.Replicas)
}

func tokenText(id string, k admin.Token) string {
	id = named(id, k.TokenName)
	if !k.Cached {
		return id + ", which this gateway has not cached"
	}
	if k.Freshness == admin.Revoked {
		return id + ", revoked" + ofTeam(k)
	}
	plan := "without the AI plan"
	if k.AIPlan != nil && *k.AIPlan {
		plan = "with the AI plan"
	}
	text := fmt.Sprintf("%s of team %s, %s, scopes: %s", id, named(k.TeamID, k.TeamName), plan, cmp.Or(strings.Join(k.Scopes, " "), "none"))
	if k.Freshness != "" {
		text += " (" + k.Freshness + ")"
	}
	return text
}

func ofTeam(k admin.Token) string {
	if k.TeamID == "" {
		return ""
	}
	return ", of team " + named(k.TeamID, k.TeamName)
}

// serviceText describes the state of a service. If that is the state of its breaker, it is not repeated.
func serviceText(s admin.Service) string {
	if s.Breaker != nil && s.State == "breaker "+string(s.Breaker.State) {
		return strings.TrimPrefix(breakerText(s.Breaker), ", ")
	}
	return s.State + breakerText(s.Breaker)
}

func breakerText(b *admin.Breaker) string {
	if b == nil {
		return ""
	}
	text := ", breaker " + string(b.State)
	if len(b.Methods) > 0 {
		text += " for " + strings.Join(b.Methods, ", ")
	}
	if b.Cause != "" {
		text += " (" + b.Cause + ")"
	}
	return text
}

// secondsText returns seconds in the notation of the configuration, rounded to milliseconds.
func secondsText(seconds float64) string {
	return timeText(time.Duration(seconds * float64(time.Second)))
}

func timeText(d time.Duration) string { return duration.Text(d.Round(time.Millisecond)) }
