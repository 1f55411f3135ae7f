package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"opsgate/backendclient"
	"opsgate/gateway/decode"
)

// maxViolationText is the maximum number of characters of a description in a response
// (docs/integrate/contract.md, "Errors").
const maxViolationText = 200

var errNoViolation = errors.New("the rejection names no field")

// checkViolations returns an error if a service rejects a request as invalid, but names no field,
// or a field that the route does not have. The response is a 500, because the client cannot correct
// such a field, and its description may contain internals.
func checkViolations(e *backendclient.Error, row *Route) error {
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

// detailsOf returns the descriptions of violations by the API's field names, within the limits of a
// response. A field with several violations has the first description.
func detailsOf(violations []backendclient.Violation, row *Route) map[string]string {
	details := make(map[string]string, len(violations))
	for _, v := range violations {
		if name := row.fieldOf(v); details[name] == "" {
			details[name] = publicText(v.Description)
		}
	}
	return decode.Details(details)
}

// fieldOf returns the field of a violation, or "" if the route has no such field. A path parameter
// is not a field, because an unknown id is a 404. A cursor is not one, because no cursor is an
// error (docs/integrate/contract.md, "Lists and pages").
func (r *Route) fieldOf(v backendclient.Violation) string {
	name, _, _ := strings.Cut(v.Field, ".")
	name, _, _ = strings.Cut(name, "[")
	for _, field := range r.Fields {
		if field != "cursor" && (name == field || name == protoField(field)) {
			return field
		}
	}
	if r.Method == http.MethodPost && (name == decode.IdempotencyKeyHeader || name == "idempotency_key") {
		return decode.IdempotencyKeyHeader
	}
	return ""
}

// protoField returns the name of a field in the contract with the services: status_page_id for
// statusPageId.
func protoField(field string) string {
	// The parameter limit is page_size in the contract. The gateway checks limit itself, so a
	// violation of page_size is a failure of the service.
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

// publicText returns a description for clients: one line of at most maxViolationText characters,
// without control characters and bidirectional controls.
func publicText(description string) string {
	text := strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, description) // Map also replaces invalid UTF-8
	if text = strings.TrimSpace(text); text == "" {
		return "is not valid"
	}
	return decode.FirstChars(text, maxViolationText)
}
