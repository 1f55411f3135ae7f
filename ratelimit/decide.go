package ratelimit

import (
	"slices"
	"time"
)

// A rule is a limit, and the shape of its window.
type rule struct {
	shape

	requests int64
	shadow   bool
}

// prepareWindows prepares the account for a decision by the policy, in place, and reports whether
// it must be written: it adds the windows of the policy that are missing, sets lastUsed of all
// windows of the policy to now, and drops those that no decision uses any more. Usually there is
// nothing to do, so most denials write nothing. docs/develop/rate-limiter.md has the rules under
// "What expires". The account must be advanced to now.
func (p *Policy) prepareWindows(a Account, now int64) (_ Account, changed bool) {
	if len(a) == 0 {
		a = Account{form, 0}
	}
	longest, newestUse := p.longest, int64(0)
	for at := headerBytes; at < len(a); at += window(a[at:]).size() {
		longest, newestUse = max(longest, window(a[at:]).length()), max(newestUse, window(a[at:]).lastUsed())
	}
	if p.hasWindowsUsedSince(a, max(newestUse, now-longest/4)) {
		return a, false
	}
	a = p.addMissing(a, now)
	for i := range p.rules {
		a.find(p.rules[i].shape).setLastUsed(now)
	}
	return a.dropUnused(now - 2*longest), true
}

// hasWindowsUsedSince reports whether the account has the windows of the policy, and each was last
// used at that time or later.
func (p *Policy) hasWindowsUsedSince(a Account, since int64) bool {
	return !slices.ContainsFunc(p.rules, func(r rule) bool {
		w := a.find(r.shape)
		return w == nil || w.lastUsed() < since
	})
}

// addMissing adds the windows of the policy that are missing. It fills each from those that the
// account had before: from another added one, roundings would add up.
func (p *Policy) addMissing(a Account, now int64) Account {
	before := slices.Clone(a)
	for i := range p.rules {
		if s := p.rules[i].shape; a.find(s) == nil {
			a = append(p.makeRoom(a), before.copyWindow(s, now)...)
			a[1]++
		}
	}
	return a
}

// dropUnused drops the windows that no decision has used since a time.
func (a Account) dropUnused(since int64) Account {
	for at := headerBytes; at < len(a); {
		if w := window(a[at:]); w.lastUsed() > since {
			at += w.size()
		} else {
			a = a.drop(at)
		}
	}
	return a
}

// drop removes the window at an offset.
func (a Account) drop(at int) Account {
	a[1]--
	return slices.Delete(a, at, at+window(a[at:]).size())
}

// makeRoom drops a window if the account is full: of those that the policy does not have, the least
// recently used.
func (p *Policy) makeRoom(a Account) Account {
	if a[1] < maxWindows {
		return a
	}
	oldest := -1
	for at := headerBytes; at < len(a); at += window(a[at:]).size() {
		w := window(a[at:])
		ofPolicy := slices.ContainsFunc(p.rules, func(r rule) bool { return r.shape == w.shape() })
		if !ofPolicy && (oldest < 0 || w.lastUsed() < window(a[oldest:]).lastUsed()) {
			oldest = at
		}
	}
	return a.drop(oldest)
}

// decide decides a request at now. It returns the account with the admission, unless the request is
// denied or a peek. The account must be advanced to now and have the windows of the policy.
func (p *Policy) decide(a Account, now int64, peek bool) (Account, Decision) {
	recorded := !peek && p.admits(a)
	if recorded {
		a = a.record(now)
	}
	return a, p.decision(a, now, recorded)
}

// admits reports whether every enforced limit admits a request.
func (p *Policy) admits(a Account) bool {
	return !slices.ContainsFunc(p.rules, func(r rule) bool {
		return !r.shadow && a.find(r.shape).total() >= r.requests
	})
}

// decision returns the decision on a request, from the account after it. recorded reports whether
// the account includes its admission.
func (p *Policy) decision(a Account, now int64, recorded bool) Decision {
	d := Decision{DeniedBy: -1, ShadowDeniedBy: -1, At: time.UnixMicro(now)}
	var before [MaxLimits]usage // count without the admission
	for i := range p.rules {
		r := &p.rules[i]
		u := a.find(r.shape).usageOf(r.requests, now)
		d.Budgets[i] = Budget{Remaining: int(max(0, r.requests-u.count)), Reset: duration(u.untilMore)}
		if recorded {
			u.count--
		}
		before[i] = u
	}
	if !recorded {
		d.DeniedBy = p.longestFull(&before, false)
	}
	if d.Allowed = d.DeniedBy < 0; d.Allowed {
		d.ShadowDeniedBy = p.longestFull(&before, true)
	} else {
		d.RetryAfter = d.Budgets[d.DeniedBy].Reset
	}
	return d
}

// longestFull returns the index of the full limit with the longest wait, of those in shadow or of
// the enforced ones; -1 if none is full.
func (p *Policy) longestFull(u *[MaxLimits]usage, shadow bool) int {
	longest := -1
	for i := range p.rules {
		r := &p.rules[i]
		if r.shadow == shadow && u[i].count >= r.requests && (longest < 0 || u[i].untilMore > u[longest].untilMore) {
			longest = i
		}
	}
	return longest
}

func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
