package responses

import "slices"

// append adds a response as the newest of a client.
func (u *Unwritten) append(p *pending, c *client) {
	p.client, p.older = c, c.newest
	if c.newest == nil {
		c.oldest = p
	} else {
		c.newest.newer = p
	}
	c.newest = p
	u.account(c, p.bytes)
}

// remove removes a response from its client, and the client if it has no other.
func (u *Unwritten) remove(p *pending) {
	c := p.client
	if p.older == nil {
		c.oldest = p.newer
	} else {
		p.older.newer = p.newer
	}
	if p.newer == nil {
		c.newest = p.older
	} else {
		p.newer.older = p.older
	}
	p.client, p.older, p.newer = nil, nil, nil
	u.account(c, -p.bytes)
	if c.oldest == nil {
		u.drop(c)
	}
}

// account adds bytes to a client and its groups.
func (u *Unwritten) account(c *client, bytes int64) {
	u.openBytes += bytes
	c.bytes += bytes
	c.siteGroup.bytes += bytes
	if c.tokenGroup != nil {
		c.tokenGroup.bytes += bytes
	}
}

// client returns the client with a key, which it creates if there is none.
func (u *Unwritten) client(of clientKey) *client {
	if c := u.clients[of]; c != nil {
		return c
	}
	var c *client
	if c, u.spareClients = pop(u.spareClients); c == nil {
		c = new(client)
	}
	c.clientKey = of
	u.clients[of] = c
	c.siteGroup = join(u, u.sites, of.site, c)
	if of.tokenID != "" {
		c.tokenGroup = join(u, u.tokens, of.tokenID, c)
	}
	return c
}

// drop removes a client without responses.
func (u *Unwritten) drop(c *client) {
	delete(u.clients, c.clientKey)
	leave(u, u.sites, c.site, c)
	if c.tokenGroup != nil {
		leave(u, u.tokens, c.tokenID, c)
	}
	*c = client{}
	u.spareClients = append(u.spareClients, c)
}

// join adds a client to the group with a key, which it creates if there is none.
func join[K comparable](u *Unwritten, groups map[K]*clientGroup, key K, c *client) *clientGroup {
	g := groups[key]
	if g == nil {
		if g, u.spareGroups = pop(u.spareGroups); g == nil {
			g = new(clientGroup)
		}
		groups[key] = g
	}
	g.clients = append(g.clients, c)
	return g
}

// leave removes a client from the group with a key, and the group if it has no other.
func leave[K comparable](u *Unwritten, groups map[K]*clientGroup, key K, c *client) {
	g := groups[key]
	i := slices.Index(g.clients, c)
	g.clients = slices.Delete(g.clients, i, i+1)
	if len(g.clients) == 0 {
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
