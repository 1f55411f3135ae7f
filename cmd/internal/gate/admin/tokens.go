package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"opsgate/authn"
)

// maxFound is the maximum number of tokens that a search returns.
const maxFound = 20

// TokenIdentity has the ids and names of a token and its team. A name is "" if it is unknown.
type TokenIdentity struct {
	TokenID   string `json:"token_id"`
	TeamID    string `json:"team_id"`
	TokenName string `json:"token_name,omitempty"`
	TeamName  string `json:"team_name,omitempty"`
}

// BusyToken is a token with many recent requests. Older requests count less.
type BusyToken struct {
	TokenIdentity

	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"`
	Error    uint64 `json:"error"` // maximum overestimate of Requests
}

// Busy is the response of /admin/limits.
type Busy struct {
	Scope  string      `json:"scope"` // ThisGateway
	Tokens []BusyToken `json:"tokens"`
}

func (a *Admin) busiest(w http.ResponseWriter, r *http.Request) {
	p := read(r, "n")
	n := p.count("n", busyDefault, busyMax)
	respond(w, p.problems, func() any { return Busy{Scope: ThisGateway, Tokens: a.busy(n)} })
}

// busy returns at most n tokens with the most requests, in descending order.
func (a *Admin) busy(n int) []BusyToken {
	top := a.options.Busiest.Top(n)
	list := make([]BusyToken, len(top))
	for i, e := range top {
		count := func(n float64) uint64 { return uint64(math.Ceil(n)) }
		list[i] = BusyToken{TokenIdentity(e.Token), count(e.Requests), count(e.Denied), count(e.Error)}
	}
	return list
}

// names returns the names of the tokens and teams whose ids are in the body.
func (a *Admin) names(w http.ResponseWriter, r *http.Request) {
	p := read(r)
	var ids []string
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxNamesBody)).Decode(&ids)
	if err != nil || len(ids) > MaxNames {
		p.problems["body"] = fmt.Sprintf("is a JSON array of at most %d ids", MaxNames)
	}
	respond(w, p.problems, func() any { return a.namesOf(ids...) })
}

// namesOf returns the names of cached tokens and their teams, by those of the ids that have one.
func (a *Admin) namesOf(ids ...string) map[string]string {
	requested, names := make(map[string]bool, len(ids)), make(map[string]string)
	for _, id := range ids {
		requested[id] = true
	}
	for t := range a.options.Authenticator.CachedTokens() {
		token := t.Identity()
		for id, name := range map[string]string{token.TokenID: token.TokenName, token.TeamID: token.TeamName} {
			if requested[id] && name != "" {
				names[id] = name
			}
		}
	}
	return names
}

// FoundTokens is the response of /admin/tokens: the first tokens by team and name.
type FoundTokens struct {
	Tokens []TokenIdentity `json:"tokens"` // at most maxFound
	Total  int             `json:"total"`
}

func (a *Admin) tokens(w http.ResponseWriter, r *http.Request) {
	p := read(r, "q")
	text := p.text("q", maxName)
	respond(w, p.problems, func() any { return a.find(text) })
}

// find returns cached tokens with a text in their name or in that of their team, in either case, or
// at the beginning of an id. If names are equal to the text, it returns only their tokens.
func (a *Admin) find(text string) FoundTokens {
	text = strings.ToLower(text)
	list := []TokenIdentity{}
	for t := range a.options.Authenticator.CachedTokens() {
		if id := t.Identity(); matches(id, text) {
			list = append(list, TokenIdentity(id))
		}
	}
	for _, nameOf := range []func(TokenIdentity) string{
		func(t TokenIdentity) string { return t.TokenName }, func(t TokenIdentity) string { return t.TeamName },
	} {
		other := func(t TokenIdentity) bool { return strings.ToLower(nameOf(t)) != text }
		if exact := slices.DeleteFunc(slices.Clone(list), other); len(exact) > 0 {
			list = exact
			break
		}
	}
	slices.SortFunc(list, func(a, b TokenIdentity) int {
		return cmp.Or(cmp.Compare(a.TeamName, b.TeamName), cmp.Compare(a.TokenName, b.TokenName), cmp.Compare(a.TokenID, b.TokenID))
	})
	return FoundTokens{Tokens: list[:min(len(list), maxFound)], Total: len(list)}
}

// matches reports whether a text in lower case is in a name of the token, or begins one of its ids.
func matches(id authn.Identity, text string) bool {
	return strings.Contains(strings.ToLower(id.TokenName), text) || strings.Contains(strings.ToLower(id.TeamName), text) ||
		strings.HasPrefix(id.TokenID, text) || strings.HasPrefix(id.TeamID, text)
}
