package config

import (
	"fmt"
	"time"

	"opsgate/ratelimit"
)

// NewPolicies returns the policies of a configuration without the assignments that have expired by
// now. Limits that are also in previous keep their policy, so that the accounts of their tokens
// need no conversion. previous may be nil.
func NewPolicies(loaded Loaded, now time.Time, previous *ratelimit.Policies) (*ratelimit.Policies, error) {
	policies := byLimits(previous)
	var all []ratelimit.Assignment
	for _, a := range loaded.RateLimit.Assignments() {
		if !a.Expires.IsZero() && !now.Before(a.Expires.Time) {
			continue
		}
		policy, err := policies.get(PolicyLimits(a.Limits))
		if err != nil {
			return nil, fmt.Errorf("make the policy of %s: %w", a.Key, err)
		}
		all = append(all, ratelimit.Assignment{
			Policy: policy, Class: a.Class, Teams: a.Teams, Tokens: a.Tokens, Key: a.Key, Origin: loaded.Origin(a.Key),
			Owner: a.Owner, Reason: a.Reason, Expires: a.Expires.Time,
		})
	}
	assigned, err := ratelimit.NewPolicies(all[0], all[1:]...)
	if err != nil {
		return nil, fmt.Errorf("assign the policies: %w", err)
	}
	return assigned, nil
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

// policyKey is the limits of a policy as a key of a map.
type policyKey [ratelimit.MaxLimits]ratelimit.Limit

type policyCache map[policyKey]*ratelimit.Policy

// byLimits returns a cache with the policies of p, which may be nil.
func byLimits(p *ratelimit.Policies) policyCache {
	cache := make(policyCache)
	if p == nil {
		return cache
	}
	for _, a := range p.All() {
		var key policyKey
		copy(key[:], a.Policy.Limits())
		cache[key] = a.Policy
	}
	return cache
}

// get returns the cached policy of the limits, or makes and caches a policy.
func (c policyCache) get(list []ratelimit.Limit) (*ratelimit.Policy, error) {
	var key policyKey
	copy(key[:], list)
	if p := c[key]; p != nil && len(list) <= len(key) { // NewPolicy refuses a longer list
		return p, nil
	}
	p, err := ratelimit.NewPolicy(list)
	if err == nil {
		c[key] = p
	}
	return p, err
}
