package config

import (
	"fmt"
	"slices"
	"strings"

	"opsgate/ratelimit"
)

// rateLimit checks all limits, and that no team or token is in two classes.
func (v *validator) rateLimit() {
	teams, tokens := make(map[string]string), make(map[string]string)
	for _, a := range v.loaded.RateLimit.Assignments() {
		v.limits(a.limitsKey, a.Limits)
		if a.Class != ratelimit.ClassTeam && a.Class != ratelimit.ClassToken {
			v.members(a.Key+".teams", a.Teams, teams)
			v.members(a.Key+".tokens", a.Tokens, tokens)
		}
	}
}

// members checks the ids of a class and adds them to others, the keys of the ids of all classes.
func (v *validator) members(key string, ids []string, others map[string]string) {
	for i, id := range ids {
		at := fmt.Sprintf("%s[%d]", key, i)
		if !visibleID.MatchString(id) {
			v.refuse(at, "must be %s, not %q", visibleIDWords, id)
		} else if other, taken := others[id]; taken {
			v.refuse(at, "is %s, as is %s (%s): a team or token can be in one class only", id, other, v.loaded.where(other))
		} else {
			others[id] = at
		}
	}
}

// limits checks the limits of one policy.
func (v *validator) limits(key string, limits []Limit) {
	if len(limits) < 1 || len(limits) > ratelimit.MaxLimits {
		v.refuse(key, "has %d limits; 1 to %d are allowed", len(limits), ratelimit.MaxLimits)
	} else if !slices.ContainsFunc(limits, func(l Limit) bool { return !l.Shadow }) {
		v.refuse(key, "has only shadow limits: at least one must be enforced")
	}
	type interval struct { // an enforced limit and one in shadow may have the same: the latter evaluates another number
		per    Duration
		shadow bool
	}
	names, intervals := make(map[string]bool), make(map[interval]bool)
	for i, limit := range limits {
		at := fmt.Sprintf("%s[%d]", key, i)
		in := interval{limit.Per, limit.Shadow}
		if intervals[in] {
			v.refuse(at+".per", "is %s, as another limit has: only the smaller would apply", limit.Per)
		} else if names[limit.Name] {
			v.refuse(at+".name", "is %q, as another limit has", limit.Name)
		}
		names[limit.Name], intervals[in] = true, true
		if !isLimitName(limit.Name) {
			v.refuse(at+".name", "must be %s, not %q", classNameWords, limit.Name)
		}
	}
	if v.hasProblem(key) {
		return
	}
	if _, err := ratelimit.NewPolicy(PolicyLimits(limits)); err != nil {
		v.refuse(key, "is not a valid policy: %v", err)
	}
}

func isLimitName(name string) bool { return className.MatchString(name) }

// hasProblem returns whether there is a problem with a list or its items.
func (v *validator) hasProblem(list string) bool {
	in := func(p Problem) bool { return p.Key == list || strings.HasPrefix(p.Key, list+"[") }
	return slices.ContainsFunc(v.problems, in) || slices.ContainsFunc(v.refused, in)
}
