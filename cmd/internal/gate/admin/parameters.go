package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"opsgate/internal/uuid"
)

// Limits of parameters.
const (
	maxID       = 128 // of a token or team, as in the configuration
	maxMethod   = 32
	maxTarget   = 4 << 10
	maxName     = 400
	busyDefault = 20
	busyMax     = 1000

	// MaxNames is the maximum number of ids that a request for names has.
	MaxNames     = 10_000
	maxNamesBody = MaxNames * (maxID + 3)
)

// parameters are the decoded parameters of a request, and their problems by name.
type parameters struct {
	values   url.Values
	problems map[string]string
}

// decodeParameters decodes the parameters of a request. Unknown and repeated parameters are problems.
func decodeParameters(r *http.Request, known ...string) *parameters {
	p := &parameters{problems: make(map[string]string)}
	var err error
	if p.values, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		p.problems["query"] = "cannot be decoded"
	}
	for name, values := range p.values {
		switch {
		case !slices.Contains(known, name):
			p.problems["query"] = "takes " + strings.Join(known, ", ") + ", and nothing else"
		case len(values) > 1:
			p.problems[name] = "is given more than once"
		}
	}
	return p
}

// checkID returns the id of a token or team; a UUID in lower case, as tokens are cached and
// counted.
func (p *parameters) checkID(name, id string, required bool) string {
	if canonical, ok := uuid.Canonical(id); ok {
		return canonical
	}
	switch {
	case id == "" && required:
		p.problems[name] = "is required"
	case len(id) > maxID || strings.ContainsFunc(id, func(c rune) bool { return c < '!' || c > '~' }):
		p.problems[name] = "is 1 to " + strconv.Itoa(maxID) + " visible ASCII characters"
	}
	return id
}

// text returns a required parameter with at most limit characters.
func (p *parameters) text(name string, limit int) string {
	text := p.values.Get(name)
	switch {
	case text == "":
		p.problems[name] = "is required"
	case len(text) > limit:
		p.problems[name] = "has more than " + strconv.Itoa(limit) + " characters"
	}
	return text
}

// count returns a number from 1 to limit, or def if the parameter is absent.
func (p *parameters) count(name string, def, limit int) int {
	if !p.values.Has(name) {
		return def
	}
	n, err := strconv.Atoi(p.values.Get(name))
	if err != nil || n < 1 || n > limit {
		p.problems[name] = "is a number from 1 to " + strconv.Itoa(limit)
	}
	return n
}

// question decodes the question of a request for an explanation.
func question(r *http.Request) (Question, map[string]string) {
	p := decodeParameters(r, "token_id", "team_id", "method", "path")
	q := Question{
		Subject: p.subject(p.values.Get("token_id")),
		Method:  p.text("method", maxMethod),
		Path:    p.text("path", maxTarget),
	}
	if p.problems["method"] == "" && strings.ContainsFunc(q.Method, func(c rune) bool { return c < 'A' || c > 'Z' }) {
		p.problems["method"] = "is a method, for example GET, in capitals"
	}
	if p.problems["path"] == "" && !isTarget(q.Path) {
		p.problems["path"] = "begins with / and is written as a client sends it, for example /v1/servers?limit=5"
	}
	return q, p.problems
}

// isTarget reports whether a request can have the path and query.
func isTarget(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, func(c rune) bool { return c < '!' || c > '~' }) {
		return false
	}
	_, err := url.ParseRequestURI(path)
	return err == nil
}

// subjectOf decodes the subject of a request about limits.
func subjectOf(r *http.Request) (Subject, map[string]string) {
	p := decodeParameters(r, "team_id")
	return p.subject(r.PathValue("token_id")), p.problems
}

func (p *parameters) subject(tokenID string) Subject {
	return Subject{TokenID: p.checkID("token_id", tokenID, true),
		TeamID: p.checkID("team_id", p.values.Get("team_id"), false)}
}
