package ratelimit

// An account is what is remembered of one token: a state under the limits that are enforced, and apart from it one under those
// in shadow, if there are any.
type account struct {
	state
	shadow *state
}

func newAccount(p *Policy, now int64) *account {
	a, words := allocate(p.enforced.layout.words)
	a.state = stateIn(words, p.enforced.layout, now)
	if p.shadow != nil {
		shadow := newState(p.shadow.layout, now)
		a.shadow = &shadow
	}
	return a
}

// allocate returns an account with its words right behind it, up to as many as two limits of some thousands need. A decision on
// one of many tokens waits for memory more than for anything else, and what lies together comes together.
func allocate(words int) (*account, []uint64) {
	if words > 16 {
		return new(account), make([]uint64, words)
	}
	block := new(struct {
		account
		words [16]uint64
	})
	return &block.account, block.words[:words]
}

// under says whether the account is laid out for the policy.
func (a *account) under(p *Policy) bool { return a.layout.rules == p.enforced }

// decide admits a request at now and spends it, or refuses it.
func (a *account) decide(now int64) Decision {
	d := a.judge(now)
	if d.Allowed {
		a.spend(now)
		d.Serial = a.serial
	}
	a.fillBudgets(&d)
	if a.shadow != nil {
		a.decideShadow(now, &d)
	}
	return d
}

// decideShadow decides the limits in shadow, beside what the others decided. Their serials keep step.
func (a *account) decideShadow(now int64, d *Decision) {
	would := a.shadow.judge(now)
	switch {
	case !d.Allowed: // spends nothing anywhere
	case would.Allowed:
		a.shadow.skipTo(d.Serial - 1)
		a.shadow.spend(now)
	default:
		d.Shadowed = would.Denied
	}
	a.shadow.fillBudgets(d)
}

// peek says what decide would.
func (a *account) peek(now int64) Decision {
	d := a.judge(now)
	a.fillBudgets(&d)
	if a.shadow != nil {
		if would := a.shadow.judge(now); d.Allowed && !would.Allowed {
			d.Shadowed = would.Denied
		}
		a.shadow.fillBudgets(&d)
	}
	return d
}

// giveBack refunds an admission at t in all limits that spent it.
func (a *account) giveBack(d Decision, now, t int64) {
	a.advance(now)
	a.refund(d.Serial, t)
	if a.shadow != nil && d.Shadowed < 0 {
		a.shadow.advance(now)
		a.shadow.refund(d.Serial, t)
	}
}

// atRest says whether nothing counts any more.
func (a *account) atRest(now int64) bool {
	a.advance(now)
	if a.shadow == nil {
		return a.empty()
	}
	a.shadow.advance(now)
	return a.empty() && a.shadow.empty()
}

// rebase returns the account under another policy. A limit that is new in the shadow begins with what the others know. One
// that comes out of it brings along what it knows of the time before theirs.
func (a *account) rebase(p *Policy, now int64) *account {
	a.advance(now)
	from, known := &a.state, a.spendings()
	shadowed := known
	if a.shadow != nil {
		a.shadow.advance(now)
		from, shadowed = a.shadow, a.shadow.spendings()
		known = withOlder(known, shadowed, a.horizon())
	}
	fresh := &account{state: a.relaid(p.enforced, known, now)}
	if p.shadow != nil {
		shadow := from.relaid(p.shadow, shadowed, now)
		fresh.shadow = &shadow
	}
	return fresh
}

// withOlder appends what other knows of the time before the horizon. What both know, other's newest, is taken once.
func withOlder(known, other []spending, horizon int64) []spending {
	newer := sum(known)
	for _, sp := range other {
		both := min(newer, sp.n)
		newer -= both
		if n := sp.n - both; n > 0 {
			known = append(known, spending{at: min(sp.at, horizon), n: n})
		}
	}
	return known
}
