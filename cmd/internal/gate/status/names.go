package status

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"opsgate/authn"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/ratelimit/heavyhitters"
)

// maxFound is the maximum number of tokens that a search returns.
const maxFound = 20

// busyNames caches the names of the busiest tokens: the page lists these once a second, and a scan of 100,000 cached tokens takes some
// 20 ms. The names are read again when another token is among the busiest, and every namesKeptFor, because tokens are renamed.
type busyNames struct {
	mu     sync.Mutex
	readAt time.Time
	byID   map[string]string // of tokens and teams; "" for what is not cached or has none
}

// namesKeptFor is the time after which the names of the busiest tokens are read again.
const namesKeptFor = 10 * time.Second

// Busiest implements [admin.Inspector] and [console.Source].
func (i *Inspector) Busiest(n int) []admin.BusyToken {
	top := i.options.Busiest.Top(n)
	names := i.busy.get(top, i.options.Clock(), i.options.Authenticator)
	list := make([]admin.BusyToken, len(top))
	for j, e := range top {
		list[j] = admin.BusyToken{
			TokenID: e.TokenID, TeamID: e.TeamID, TokenName: names[e.TokenID], TeamName: names[e.TeamID],
			Requests: uint64(math.Ceil(e.Requests)), Denied: uint64(math.Ceil(e.Denied)), Error: uint64(math.Ceil(e.Error)),
		}
	}
	return list
}

// get returns the names of tokens and their teams, which the caller must not modify.
func (b *busyNames) get(tokens []heavyhitters.Entry, now time.Time, a *authn.Authenticator) map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	isNew := func(e heavyhitters.Entry) bool { _, ok := b.byID[e.TokenID]; return !ok }
	if age := now.Sub(b.readAt); age >= 0 && age < namesKeptFor && !slices.ContainsFunc(tokens, isNew) {
		return b.byID
	}
	ids := make([]string, 0, 2*len(tokens))
	for _, e := range tokens {
		ids = append(ids, e.TokenID, e.TeamID)
	}
	b.readAt, b.byID = now, namesOf(a, ids)
	return b.byID
}

// namesOf returns the names of cached tokens and their teams by id, with "" for ids that have none.
func namesOf(a *authn.Authenticator, ids []string) map[string]string {
	names := make(map[string]string, len(ids))
	for _, id := range ids {
		names[id] = ""
	}
	set := func(id, name string) {
		if _, requested := names[id]; requested && name != "" {
			names[id] = name
		}
	}
	for t := range a.CachedTokens() {
		token := t.Identity()
		set(token.TokenID, token.TokenName)
		set(token.TeamID, token.TeamName)
	}
	return names
}

// Names implements [admin.Inspector] and [console.Source].
func (i *Inspector) Names(ids []string) map[string]string {
	names := namesOf(i.options.Authenticator, ids)
	maps.DeleteFunc(names, func(_, name string) bool { return name == "" })
	return names
}

// FindTokens implements [admin.Inspector].
func (i *Inspector) FindTokens(text string) admin.FoundTokens {
	text = strings.ToLower(text)
	found := admin.FoundTokens{Tokens: []admin.TokenIdentity{}}
	for t := range i.options.Authenticator.CachedTokens() {
		if id := t.Identity(); matches(id, text) {
			found.Total++
			found.Tokens = append(found.Tokens, admin.TokenIdentity(id))
		}
		if len(found.Tokens) == 2*maxFound {
			found.Tokens = firstByName(found.Tokens) // bounds the list
		}
	}
	found.Tokens = firstByName(found.Tokens)
	return found
}

// matches reports whether a text in lower case is in a name of the token, or begins one of its ids.
func matches(id authn.Identity, text string) bool {
	return strings.Contains(strings.ToLower(id.TokenName), text) || strings.Contains(strings.ToLower(id.TeamName), text) ||
		strings.HasPrefix(id.TokenID, text) || strings.HasPrefix(id.TeamID, text)
}

// firstByName returns the first tokens by team and name, at most maxFound. It sorts the list.
func firstByName(list []admin.TokenIdentity) []admin.TokenIdentity {
	slices.SortFunc(list, func(a, b admin.TokenIdentity) int {
		return cmp.Or(cmp.Compare(a.TeamName, b.TeamName), cmp.Compare(a.TokenName, b.TokenName), cmp.Compare(a.TokenID, b.TokenID))
	})
	return list[:min(len(list), maxFound)]
}
