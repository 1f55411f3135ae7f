package admin

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"unicode"
)

// resetLocally explains a reset while Redis is unavailable.
const resetLocally = "only the usage that this gateway counted was reset, because Redis could not be reached: usage in Redis will count" +
	" again after the outage, and other gateways keep the usage that they count meanwhile; reset again after the outage"

// reset deletes the usage of a token, and logs the operator.
func (a *Admin) reset(w http.ResponseWriter, r *http.Request) {
	s, problems := subjectOf(r)
	if len(problems) > 0 {
		respond(w, problems, nil)
		return
	}
	before := a.limitsOf(r.Context(), s)
	attributes := []any{
		slog.String("token_id", s.TokenID),
		slog.String("by", a.identity(r)),
		slog.String("operator", operator(r)),
		slog.String("remote", r.RemoteAddr),
		slog.String("remaining_before", remainingText(before)),
	}
	if err := a.options.Limits.Reset(r.Context(), s.TokenID); err != nil {
		a.options.Logger.Warn("limits of a token were reset on this gateway only", append(attributes, slog.Any("error", err))...)
		Respond(w, http.StatusServiceUnavailable, Failure{Text: resetLocally, Code: "unavailable"})
		return
	}
	a.options.Logger.Info("limits of a token were reset", attributes...)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// identity returns how the operator authenticated.
func (a *Admin) identity(r *http.Request) string {
	name := "local"
	if a.token.Load().required {
		name = "admin token"
	}
	return cmp.Or(certificateSubject(r), name)
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
