package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"opsgate/backendclient"
)

// maxViolationText is the number of characters of a violation's description that a client reads (decisions, "Errors").
const maxViolationText = 200

var errNoViolation = errors.New("the refusal names no field")

// checkViolations returns an error if a service refused a request as invalid for anything but fields that the client can send with the
// operation. The client cannot correct anything else, and its text may describe internals, so such a refusal is a failure of the service.
func checkViolations(e *backendclient.Error, row *Route) error {
	if failureKindOf(e) != failureInvalid {
		return nil
	}
	if len(e.Violations) == 0 {
		return fmt.Errorf("%w: %w", e, errNoViolation)
	}
	for _, v := range e.Violations {
		if row.fieldOf(v) == "" {
			return fmt.Errorf("%w: clients cannot correct %q: %q", e, v.Field, v.Description)
		}
	}
	return nil
}

// detailsOf returns the violations as the API names them, the first text of each field.
func detailsOf(violations []backendclient.Violation, row *Route) map[string]string {
	details := make(map[string]string, len(violations))
	for _, v := range violations {
		if name := row.fieldOf(v); details[name] == "" {
			details[name] = publicText(v.Description)
		}
	}
	return details
}

// fieldOf returns the field that a violation is of, or "" where clients send no such field with the operation. Path parameters are
// not fields: an id that names nothing is 404. Nor is a cursor, which is never an error (specification, part 4).
func (r *Route) fieldOf(v backendclient.Violation) string {
	path, _, _ := strings.Cut(v.Field, ".")
	path, _, _ = strings.Cut(path, "[")
	for _, field := range r.Fields {
		if field != "cursor" && (path == field || path == protoField(field)) {
			return field
		}
	}
	if r.Method == http.MethodPost && (path == idempotencyKeyHeader || path == "idempotency_key") {
		return idempotencyKeyHeader
	}
	return ""
}

// protoField returns the name that the contract with the services has for a field: statusPageId is status_page_id.
func protoField(field string) string {
	if field == "action" {
		return "action_prefix"
	}
	var b strings.Builder
	for _, r := range field {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// publicText returns a description as clients may read it: one line of at most maxViolationText characters that can neither control
// a terminal nor reorder the text around it.
func publicText(description string) string {
	text := strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, description) // which also replaces what is not UTF-8
	if text = strings.TrimSpace(text); text == "" {
		return "is not valid"
	}
	return firstChars(text, maxViolationText)
}
