package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"opsgate/ratelimit"
)

// maxFound is the maximum number of tokens that a search returns.
const maxFound = 20

// TokenIdentity has the ids and names of a token and its team. A name is "" if it is unknown.
type TokenIdentity struct {
	TokenID    string `json:"token_id"`
	TeamID     string `json:"team_id"`
	TokenName  string `json:"token_name,omitempty"`
	TeamName   string `json:"team_name,omitempty"`
	LimitClass string `json:"limit_class,omitempty"` // that identity names
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
	p := decodeParameters(r, "n")
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
	p := decodeParameters(r)
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

// unknownClasses returns the names of classes that cached tokens have and the policies do not, in
// order.
func (a *Admin) unknownClasses(p *ratelimit.Policies) []string {
	unknown := make(map[string]bool)
	for t := range a.options.Authenticator.CachedTokens() {
		if of := t.Principal; of != nil && p.Misses(p.For(of.TeamID, of.TokenID, of.LimitClass), of.LimitClass) {
			unknown[of.LimitClass] = true
		}
	}
	return slices.Sorted(maps.Keys(unknown))
}

// FoundTokens is the response of /admin/tokens: the first tokens by team and name.
type FoundTokens struct {
	Tokens []TokenIdentity `json:"tokens"` // at most maxFound
	Total  int             `json:"total"`
}

func (a *Admin) tokens(w http.ResponseWriter, r *http.Request) {
	p := decodeParameters(r, "q")
	text := p.text("q", maxName)
	respond(w, p.problems, func() any { return a.find(text) })
}

// find returns cached tokens with a text in their name or in that of their team, in either case, or
// at the beginning of an id. If names are equal to the text, it returns only their tokens.
func (a *Admin) find(text string) FoundTokens {
	text = strings.ToLower(text)
	list := []TokenIdentity{}
	for t := range a.options.Authenticator.CachedTokens() {
		id := t.Identity()
		if strings.Contains(strings.ToLower(id.TokenName), text) || strings.Contains(strings.ToLower(id.TeamName), text) ||
			strings.HasPrefix(id.TokenID, text) || strings.HasPrefix(id.TeamID, text) {
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
		return cmp.Or(cmp.Compare(a.TeamName, b.TeamName), cmp.Compare(a.TokenName, b.TokenName),
			cmp.Compare(a.TokenID, b.TokenID))
	})
	return FoundTokens{Tokens: list[:min(len(list), maxFound)], Total: len(list)}
}

// resetLocally explains a reset while Redis is unavailable.
const resetLocally = "only the usage that this gateway counted was reset, because Redis could not be reached: usage " +
	"in Redis will count" +
	" again after the outage, and other gateways keep the usage that they count meanwhile; reset again after the outage"

// reset deletes the usage of a token, and logs the operator.
func (a *Admin) reset(w http.ResponseWriter, r *http.Request) {
	s, problems := subjectOf(r)
	if len(problems) > 0 {
		respond(w, problems, nil)
		return
	}
	before := a.limitsOf(r.Context(), s)
	by := "local"
	if a.token.Load().required {
		by = "admin token"
	}
	attributes := []any{
		slog.String("token_id", s.TokenID), slog.String("by", cmp.Or(certificateSubject(r), by)),
		slog.String("operator", operator(r)),
		slog.String("remote", r.RemoteAddr), slog.String("remaining_before", remainingText(before)),
	}
	if err := a.options.Limits.Reset(r.Context(), s.TokenID); err != nil {
		a.options.Logger.Warn("limits of a token were reset on this gateway only",
			append(attributes, slog.Any("error", err))...)
		Respond(w, http.StatusServiceUnavailable, Failure{Text: resetLocally, Code: "unavailable"})
		return
	}
	a.options.Logger.Info("limits of a token were reset", attributes...)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// maxOperator is the maximum length of X-Operator in characters; the rest is cut off.
const maxOperator = 64

// operator returns the printable characters of the name in X-Operator, which is not verified.
func operator(r *http.Request) string {
	text := strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) && c != unicode.ReplacementChar {
			return c
		}
		return -1
	}, r.Header.Get("X-Operator"))
	runes := []rune(text)
	return strings.TrimSpace(string(runes[:min(len(runes), maxOperator)]))
}

// remainingText returns the remaining requests of each limit, for the log.
func remainingText(t TokenLimits) string {
	list := make([]string, len(t.Limits))
	for i, l := range t.Limits {
		remaining := "an unknown number"
		if l.Remaining != nil {
			remaining = strconv.Itoa(*l.Remaining)
		}
		list[i] = fmt.Sprintf("%s: %s of %d", l.Name, remaining, l.Requests)
	}
	return strings.Join(list, ", ")
}
