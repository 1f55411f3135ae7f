package gateway

import "slices"

// append adds a response as the newest of a holder.
func (u *unwrittenResponses) append(p *unwrittenResponse, h *holder) {
	p.holder, p.older = h, h.newest
	if h.newest == nil {
		h.oldest = p
	} else {
		h.newest.newer = p
	}
	h.newest = p
	u.account(h, p.bytes)
}

// remove removes a response from its holder, and the holder if it has no other.
func (u *unwrittenResponses) remove(p *unwrittenResponse) {
	h := p.holder
	if p.older == nil {
		h.oldest = p.newer
	} else {
		p.older.newer = p.newer
	}
	if p.newer == nil {
		h.newest = p.older
	} else {
		p.newer.older = p.older
	}
	p.holder, p.older, p.newer = nil, nil, nil
	u.account(h, -p.bytes)
	if h.oldest == nil {
		u.drop(h)
	}
}

// account adds bytes to a holder and its groups.
func (u *unwrittenResponses) account(h *holder, bytes int64) {
	u.openBytes += bytes
	h.bytes += bytes
	h.siteGroup.bytes += bytes
	if h.tokenGroup != nil {
		h.tokenGroup.bytes += bytes
	}
}

// holder returns the holder of an origin, which it creates if there is none.
func (u *unwrittenResponses) holder(of origin) *holder {
	if h := u.holders[of]; h != nil {
		return h
	}
	var h *holder
	if h, u.spareHolders = pop(u.spareHolders); h == nil {
		h = new(holder)
	}
	h.origin = of
	u.holders[of] = h
	h.siteGroup = join(u, u.sites, of.site, h)
	if of.tokenID != "" {
		h.tokenGroup = join(u, u.tokens, of.tokenID, h)
	}
	return h
}

// drop removes a holder without responses.
func (u *unwrittenResponses) drop(h *holder) {
	delete(u.holders, h.origin)
	leave(u, u.sites, h.site, h)
	if h.tokenGroup != nil {
		leave(u, u.tokens, h.tokenID, h)
	}
	*h = holder{}
	u.spareHolders = append(u.spareHolders, h)
}

// join adds a holder to the group with a key, which it creates if there is none.
func join[K comparable](u *unwrittenResponses, groups map[K]*group, key K, h *holder) *group {
	g := groups[key]
	if g == nil {
		if g, u.spareGroups = pop(u.spareGroups); g == nil {
			g = new(group)
		}
		groups[key] = g
	}
	g.holders = append(g.holders, h)
	return g
}

// leave removes a holder from the group with a key, and the group if it has no other.
func leave[K comparable](u *unwrittenResponses, groups map[K]*group, key K, h *holder) {
	g := groups[key]
	i := slices.Index(g.holders, h)
	g.holders = slices.Delete(g.holders, i, i+1)
	if len(g.holders) == 0 {
		delete(groups, key)
		u.spareGroups = append(u.spareGroups, g)
	}
}

// pop removes the last element of a stack. It returns nil if there is none.
func pop[T any](stack []*T) (*T, []*T) {
	if len(stack) == 0 {
		return nil, stack
	}
	last := len(stack) - 1
	return stack[last], stack[:last]
}
