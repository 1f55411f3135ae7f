package admin

import (
	"bytes"
	"encoding/json"
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
	respond(w, problems, func() any { return a.inspector.Explain(r.Context(), q) })
}

func (a *Admin) limits(w http.ResponseWriter, r *http.Request) {
	s, problems := subjectOf(r)
	respond(w, problems, func() any { return a.inspector.Limits(r.Context(), s) })
}

// Busy is the response of /admin/limits.
type Busy struct {
	Scope  string      `json:"scope"` // ThisGateway
	Tokens []BusyToken `json:"tokens"`
}

func (a *Admin) busiest(w http.ResponseWriter, r *http.Request) {
	p := read(r, "n")
	n := p.count("n", busyDefault, busyMax)
	respond(w, p.problems, func() any {
		return Busy{Scope: ThisGateway, Tokens: append([]BusyToken{}, a.inspector.Busiest(n)...)}
	})
}

func (a *Admin) tokens(w http.ResponseWriter, r *http.Request) {
	p := read(r, "q")
	text := p.text("q", maxName)
	respond(w, p.problems, func() any { return a.inspector.FindTokens(text) })
}

// names returns the names of the tokens and teams whose ids are in the body.
func (a *Admin) names(w http.ResponseWriter, r *http.Request) {
	p := read(r)
	var ids []string
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxNamesBody)).Decode(&ids)
	if err != nil || len(ids) > MaxNames {
		p.problems["body"] = fmt.Sprintf("is a JSON array of at most %d ids", MaxNames)
	}
	respond(w, p.problems, func() any { return a.inspector.Names(ids) })
}

// resetLocally explains a reset while Redis is unavailable.
const resetLocally = "only the usage that this gateway counted was reset, because Redis could not be reached: usage in Redis will count" +
	" again after the outage, and other gateways keep the usage that they count meanwhile; reset again after the outage"

// reset deletes the usage of a token, and logs the operator.
func (a *Admin) reset(w http.ResponseWriter, r *http.Request) {
	s, problems := subjectOf(r)
	if len(problems) > 0 {
		invalid(w, problems)
		return
	}
	before := a.inspector.Limits(r.Context(), s)
	attributes := []any{
		slog.String("token_id", s.TokenID),
		slog.String("by", a.identity(r)),
		slog.String("operator", operator(r)),
		slog.String("remote", r.RemoteAddr),
		slog.String("remaining_before", remainingText(before)),
	}
	if err := a.inspector.Reset(r.Context(), s.TokenID); err != nil {
		a.logger.Warn("limits of a token were reset on this gateway only", append(attributes, slog.Any("error", err))...)
		Respond(w, http.StatusServiceUnavailable, Failure{Text: resetLocally, Code: "unavailable"})
		return
	}
	a.logger.Info("limits of a token were reset", attributes...)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// identity returns how the operator authenticated.
func (a *Admin) identity(r *http.Request) string {
	switch {
	case certificateSubject(r) != "":
		return certificateSubject(r)
	case a.token.Load().required:
		return "admin token"
	default:
		return "local"
	}
}

// maxOperator is the maximum length of X-Operator in characters; the rest is cut off.
const maxOperator = 64

// operator returns the name in X-Operator, which is not verified.
func operator(r *http.Request) string { return printable(r.Header.Get("X-Operator"), maxOperator) }

// printable returns the printable characters of a text, at most n of them.
func printable(text string, n int) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) && c != unicode.ReplacementChar {
			return c
		}
		return -1
	}, text)
	if runes := []rune(text); len(runes) > n {
		text = string(runes[:n])
	}
	return strings.TrimSpace(text)
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

func (a *Admin) config(w http.ResponseWriter, r *http.Request) {
	if p := read(r); len(p.problems) > 0 {
		invalid(w, p.problems)
		return
	}
	c := a.inspector.Configuration()
	if !strings.HasPrefix(r.Header.Get("Accept"), "text/plain") {
		Respond(w, http.StatusOK, c)
		return
	}
	setHeader(w, "text/plain; charset=utf-8")
	_, _ = w.Write(c.text())
}

// text returns the configuration as text: one key per line, with the origin of its value.
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
		fmt.Fprintln(&b, v)
	}
	return b.Bytes()
}
