package responses

import "slices"

// push adds a response to a client, as its newest.
func (u *Unwritten) push(p *pending, c *client) {
	p.client, p.older = c, c.newest
	if c.newest == nil {
		c.oldest = p
	} else {
		c.newest.newer = p
	}
	c.newest = p
	u.account(c, p.bytes)
}

// remove removes a response from its client. It drops a client whose last response this was.
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

// account adds bytes to the sums of a client, of its groups and of all responses that are not cut
// off.
func (u *Unwritten) account(c *client, bytes int64) {
	u.openBytes += bytes
	c.bytes += bytes
	c.siteGroup.bytes += bytes
	if c.tokenGroup != nil {
		c.tokenGroup.bytes += bytes
	}
}

// client returns the client with a key. If there is none, it creates one.
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
	c.siteGroup = addToGroup(u, u.sites, of.site, c)
	if of.tokenID != "" {
		c.tokenGroup = addToGroup(u, u.tokens, of.tokenID, c)
	}
	return c
}

// drop removes a client without responses.
func (u *Unwritten) drop(c *client) {
	delete(u.clients, c.clientKey)
	removeFromGroup(u, u.sites, c.site, c)
	if c.tokenGroup != nil {
		removeFromGroup(u, u.tokens, c.tokenID, c)
	}
	*c = client{}
	u.spareClients = append(u.spareClients, c)
}

// addToGroup adds a client to the group with a key, and returns the group. If there is none, it
// creates one.
func addToGroup[K comparable](u *Unwritten, groups map[K]*clientGroup, key K, c *client) *clientGroup {
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

// removeFromGroup removes a client from the group with a key. It drops a group whose last client
// this was.
func removeFromGroup[K comparable](u *Unwritten, groups map[K]*clientGroup, key K, c *client) {
	g := groups[key]
	i := slices.Index(g.clients, c)
	g.clients = slices.Delete(g.clients, i, i+1)
	if len(g.clients) == 0 {
		delete(groups, key)
		u.spareGroups = append(u.spareGroups, g)
	}
}

// pop returns the last element of a stack and the stack without it. The element is nil if the stack
// is empty.
func pop[T any](stack []*T) (*T, []*T) {
	if len(stack) == 0 {
		return nil, stack
	}
	last := len(stack) - 1
	return stack[last], stack[:last]
}
