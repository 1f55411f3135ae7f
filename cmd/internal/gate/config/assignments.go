package config

import (
	"maps"
	"slices"
	"time"

	"opsgate/ratelimit"
)

const (
	limitsKey  = "rate_limit.limits"
	classesKey = "rate_limit.classes"
	teamsKey   = "rate_limit.teams"
	tokensKey  = "rate_limit.tokens"
)

// An Assignment is the limits of one key and the tokens that they apply to.
type Assignment struct {
	Override

	Class         string   // the Class of a [ratelimit.Assignment]
	Key           string   // rate_limit.limits, or for example rate_limit.classes.partner
	Teams, Tokens []string // none for the default

	limitsKey string // of the list of limits
}

// Assignments returns the default assignment, and then those of classes, teams and tokens, each sorted by name.
func (c RateLimit) Assignments() []Assignment {
	list := []Assignment{{Class: ratelimit.ClassDefault, Key: limitsKey, limitsKey: limitsKey, Override: Override{Limits: c.Limits}}}
	for _, name := range slices.Sorted(maps.Keys(c.Classes)) {
		class := c.Classes[name]
		list = append(list, Assignment{
			Class: name, Key: named(classesKey, name), Teams: class.Teams, Tokens: class.Tokens,
			Override: Override{Limits: class.Limits, Owner: class.Owner, Reason: class.Reason, Expires: class.Expires},
		})
	}
	for _, id := range slices.Sorted(maps.Keys(c.Teams)) {
		list = append(list, Assignment{Class: ratelimit.ClassTeam, Key: named(teamsKey, id), Teams: []string{id}, Override: c.Teams[id]})
	}
	for _, id := range slices.Sorted(maps.Keys(c.Tokens)) {
		list = append(list, Assignment{Class: ratelimit.ClassToken, Key: named(tokensKey, id), Tokens: []string{id}, Override: c.Tokens[id]})
	}
	for i := range list[1:] {
		list[i+1].limitsKey = list[i+1].Key + ".limits"
	}
	return list
}

// PolicyLimits converts limits for [ratelimit.NewPolicy].
func PolicyLimits(limits []Limit) []ratelimit.Limit {
	list := make([]ratelimit.Limit, len(limits))
	for i, l := range limits {
		list[i] = ratelimit.Limit{Name: l.Name, Requests: l.Requests, Per: time.Duration(l.Per), Shadow: l.Shadow}
	}
	return list
}

// nameLimits names the limits without a name after their interval.
func (c RateLimit) nameLimits() {
	for _, assignment := range c.Assignments() {
		for i := range assignment.Limits {
			if limit := &assignment.Limits[i]; limit.Name == "" {
				limit.Name = limitName(limit.Per)
			}
		}
	}
}

func limitName(per Duration) string {
	switch time.Duration(per) {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return per.String()
}
