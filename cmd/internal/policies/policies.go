package policies

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"opsgate/cmd/internal/config"
	"opsgate/ratelimit"
)

// New returns the policies that a configuration has at a time: what has expired by then is left out. Limits that previous has
// too, which may be nil, keep their policy, so that what a token has spent need not be laid out anew.
func New(loaded config.Loaded, now time.Time, previous *ratelimit.Policies) (*ratelimit.Policies, error) {
	m := &maker{loaded: loaded, now: now, known: known(previous)}
	c := loaded.RateLimit
	m.add(ratelimit.Assignment{Class: ratelimit.ClassDefault, Key: limitsKey}, c.Limits, config.Time{})
	for _, name := range slices.Sorted(maps.Keys(c.Classes)) {
		class := c.Classes[name]
		m.add(ratelimit.Assignment{
			Class: name, Key: config.Named(classesKey, name), Teams: class.Teams, Tokens: class.Tokens,
			Owner: class.Owner, Reason: class.Reason,
		}, class.Limits, class.Expires)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Teams)) {
		m.override(ratelimit.Assignment{Class: ratelimit.ClassTeam, Key: config.Named(teamsKey, id), Teams: []string{id}}, c.Teams[id])
	}
	for _, id := range slices.Sorted(maps.Keys(c.Tokens)) {
		m.override(ratelimit.Assignment{Class: ratelimit.ClassToken, Key: config.Named(tokensKey, id), Tokens: []string{id}}, c.Tokens[id])
	}
	if m.err != nil {
		return nil, m.err
	}
	made, err := ratelimit.NewPolicies(m.all[0], m.all[1:]...)
	if err != nil {
		return nil, fmt.Errorf("give every token its policy: %w", err)
	}
	return made, nil
}

// NextExpiry returns when the first of the assignments expires; zero for never.
func NextExpiry(p *ratelimit.Policies) time.Time {
	var next time.Time
	for _, a := range p.All() {
		if !a.Expires.IsZero() && (next.IsZero() || a.Expires.Before(next)) {
			next = a.Expires
		}
	}
	return next
}

// Keys of what gives tokens their limits.
const (
	limitsKey  = "rate_limit.limits"
	classesKey = "rate_limit.classes"
	teamsKey   = "rate_limit.teams"
	tokensKey  = "rate_limit.tokens"
)

// limits are those of a policy, comparable.
type limits [ratelimit.MaxLimits]ratelimit.Limit

// known returns the policies that are assigned, by their limits.
func known(p *ratelimit.Policies) map[limits]*ratelimit.Policy {
	all := make(map[limits]*ratelimit.Policy)
	if p == nil {
		return all
	}
	for _, a := range p.All() {
		var key limits
		copy(key[:], a.Policy.Limits())
		all[key] = a.Policy
	}
	return all
}

// A maker makes assignments until one fails.
type maker struct {
	loaded config.Loaded
	now    time.Time
	known  map[limits]*ratelimit.Policy
	all    []ratelimit.Assignment
	err    error
}

func (m *maker) override(a ratelimit.Assignment, o config.Override) {
	a.Owner, a.Reason = o.Owner, o.Reason
	m.add(a, o.Limits, o.Expires)
}

// add adds an assignment of those limits, unless it has expired.
func (m *maker) add(a ratelimit.Assignment, list []config.Limit, expires config.Time) {
	if m.err != nil || !expires.IsZero() && !m.now.Before(expires.Time) {
		return
	}
	policy, err := m.policy(list)
	if err != nil {
		m.err = fmt.Errorf("make the policy of %s: %w", a.Key, err)
		return
	}
	a.Policy, a.Expires, a.Origin = policy, expires.Time, m.loaded.Origin(a.Key)
	m.all = append(m.all, a)
}

// policy returns the policy of the limits. Those that are the same have the same one.
func (m *maker) policy(list []config.Limit) (*ratelimit.Policy, error) {
	var key limits
	if len(list) <= len(key) { // else NewPolicy refuses them
		for i, l := range list {
			key[i] = ratelimit.Limit{Name: l.Name, Requests: l.Requests, Per: time.Duration(l.Per), Shadow: l.Shadow}
		}
		if p := m.known[key]; p != nil {
			return p, nil
		}
	}
	p, err := config.NewPolicy(list)
	if err == nil {
		m.known[key] = p
	}
	return p, err
}
