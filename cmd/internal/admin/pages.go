package admin

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

func (a *Admin) explain(w http.ResponseWriter, r *http.Request) {
	q, problems := question(r)
	if len(problems) > 0 {
		invalid(w, problems)
		return
	}
	respond(w, http.StatusOK, a.inspector.Explain(r.Context(), q))
}

func (a *Admin) limits(w http.ResponseWriter, r *http.Request) {
	s, problems := subjectOf(r)
	if len(problems) > 0 {
		invalid(w, problems)
		return
	}
	respond(w, http.StatusOK, a.inspector.Limits(r.Context(), s))
}

// Busy is the answer of /admin/limits.
type Busy struct {
	Tokens []BusyToken `json:"tokens"`
}

func (a *Admin) busiest(w http.ResponseWriter, r *http.Request) {
	p := read(r, "n")
	n := p.count("n", busyDefault, busyMax)
	if len(p.problems) > 0 {
		invalid(w, p.problems)
		return
	}
	answer := Busy{Tokens: a.inspector.Busiest(n)}
	if answer.Tokens == nil {
		answer.Tokens = []BusyToken{}
	}
	respond(w, http.StatusOK, answer)
}

// resetHereAlone says what a reset did while the store that gateways share is away.
const resetHereAlone = "what this gateway itself counted is reset, but Redis was not reached: what it counted will count again" +
	" when it is back, and other gateways keep what they count meanwhile; reset again then"

// reset forgets what a token has spent. Somebody will ask who did that.
func (a *Admin) reset(w http.ResponseWriter, r *http.Request) {
	s, problems := subjectOf(r)
	if len(problems) > 0 {
		invalid(w, problems)
		return
	}
	before := a.inspector.Limits(r.Context(), s)
	attributes := []any{
		slog.String("token_id", s.TokenID),
		slog.String("by", a.access.who(r)),
		slog.String("operator", operator(r)),
		slog.String("remote", r.RemoteAddr),
		slog.String("left_before", left(before)),
	}
	if err := a.inspector.Reset(r.Context(), s.TokenID); err != nil {
		a.logger.Warn("limits of a token were reset on this gateway alone", append(attributes, slog.Any("error", err))...)
		respond(w, http.StatusServiceUnavailable, Failure{Text: resetHereAlone, Code: "unavailable"})
		return
	}
	a.logger.Info("limits of a token were reset", attributes...)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// who returns by what right a request was let in.
func (a Access) who(r *http.Request) string {
	switch {
	case subject(r) != "":
		return subject(r)
	case a.Token != "":
		return "admin token"
	default:
		return "local"
	}
}

// operatorMax bounds what an operator may say of who it is.
const operatorMax = 64

// operator returns who the caller says it is, which nobody has checked.
func operator(r *http.Request) string {
	name := strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) && c != unicode.ReplacementChar {
			return c
		}
		return -1
	}, r.Header.Get("X-Operator"))
	if runes := []rune(name); len(runes) > operatorMax {
		name = string(runes[:operatorMax])
	}
	return strings.TrimSpace(name)
}

// left says what is left of each limit.
func left(t TokenLimits) string {
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

func (a *Admin) config(w http.ResponseWriter, r *http.Request) {
	p := read(r)
	if len(p.problems) > 0 {
		invalid(w, p.problems)
		return
	}
	c := a.inspector.Configuration()
	if !strings.HasPrefix(r.Header.Get("Accept"), "text/plain") {
		respond(w, http.StatusOK, c)
		return
	}
	setHeader(w, "text/plain; charset=utf-8")
	_, _ = w.Write(c.text())
}

// text returns the configuration for a terminal: a key a line, with where its value comes from.
func (c Configuration) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# version %s, in force since %s\n", c.Version, c.Since.Format(time.RFC3339))
	if c.File != "" {
		fmt.Fprintf(&b, "# file %s\n", c.File)
	}
	if reload := c.LastReload; reload != nil {
		fmt.Fprintf(&b, "# last reload %s (%s): %s\n", reload.At.Format(time.RFC3339), reload.Why, reload.Outcome)
		for _, problem := range reload.Problems {
			fmt.Fprintf(&b, "#   %s\n", problem)
		}
	}
	for _, v := range c.Values {
		value := v.Value
		if strings.ContainsFunc(value, unicode.IsControl) {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&b, "%s: %s  # %s\n", v.Key, value, v.Origin)
	}
	return b.Bytes()
}
