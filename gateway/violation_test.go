package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
)

const newIncident = `{"title":"t","status":"resolved","impact":"none","message":"m"}`

func violationOf(field, text string) *errdetails.BadRequest_FieldViolation {
	return &errdetails.BadRequest_FieldViolation{Field: field, Description: text}
}

func violations(t *testing.T, all ...*errdetails.BadRequest_FieldViolation) error {
	t.Helper()
	return withDetails(t, codes.InvalidArgument, &errdetails.BadRequest{FieldViolations: all})
}

func TestViolationsUseAPIFieldNames(t *testing.T) {
	h := start(t)
	h.services.fail("CreateIncident", violations(t,
		violationOf("status_page_id", "is not a page of this team"),
		violationOf("component_ids[3]", "is not a component of this team"),
		violationOf("component_ids[5]", "is not the first"),
		violationOf("title.text", "is wrong"),
		violationOf("impact", ""),
		violationOf("idempotency_key", "was used with another request"),
	))
	want := map[string]string{
		"statusPageId": "is not a page of this team", "componentIds": "is not a component of this team", "title": "is wrong",
		"impact": "is not valid", "Idempotency-Key": "was used with another request",
	}
	got := h.do(t, "full", "POST", "/v1/incidents", newIncident).mustFail(t, 422, "validation_error")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	h.services.fail("ListAuditEntries", violations(t, violationOf("action_prefix", "is too long"), violationOf("limit", "is too large")))
	got = h.get(t, "/v1/audit").mustFail(t, 422, "validation_error")
	if diff := cmp.Diff(map[string]string{"action": "is too long", "limit": "is too large"}, got); diff != "" {
		t.Error(diff)
	}
}

// A client cannot correct a field that it did not send, and the description may contain internals.
func TestViolationOfUnknownFieldIs500(t *testing.T) {
	const secret = "pq: password=hunter2"
	for name, c := range map[string]struct{ method, target, field string }{
		"a path parameter":                  {"GET", "/v1/servers/" + someID, "server_id"},
		"the team":                          {"GET", "/v1/servers", "team_id"},
		"an internal field":                 {"POST", "/v1/incidents", "actor.token_id"},
		"a field of another operation":      {"POST", "/v1/incidents", "notify_subscribers"},
		"a parameter of another operation":  {"GET", "/v1/incidents", "page_size"},
		"unknown field":                     {"POST", "/v1/incidents", "dsn"},
		"no name":                           {"POST", "/v1/incidents", ""},
		"a name of underscores":             {"POST", "/v1/incidents", "__"},
		"the request":                       {"POST", "/v1/incidents", "request"},
		"the body":                          {"POST", "/v1/incidents", "body"},
		"a cursor, which is never an error": {"GET", "/v1/incidents", "cursor"},
		"a key for a read":                  {"GET", "/v1/incidents", "idempotency_key"},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			body := ""
			if c.method == "POST" {
				body = newIncident
			}
			h.services.fail("", violations(t, violationOf("title", "is wrong"), violationOf(c.field, secret)))
			got := h.do(t, "full", c.method, c.target, body)
			got.mustFail(t, 500, "internal_error")
			if strings.Contains(got.body, "hunter2") {
				t.Errorf("the response contains %s", got.body)
			}
			if log := h.log.String(); !strings.Contains(log, `"cause":"contract:`) || c.method == "POST" && !strings.Contains(log, secret) {
				t.Errorf("the log does not have the violation and its cause: %s", log)
			}
		})
	}
}

func TestViolationTextsAreTruncatedAndSanitized(t *testing.T) {
	for sent, want := range map[string]string{
		"must be one of a, b":                   "must be one of a, b",
		" \u00a0padded\t":                       "padded",
		"two\r\nlines":                          "two  lines",
		"a\x1b[31mred\x00\x7f\u0085.":           "a [31mred   .",
		"one\u2028two\u2029three":               "one two three",
		"\u202eevil\u2066 \u200fmarks\u061c":    "evil marks",
		"not \xff UTF-8":                        "not \uFFFD UTF-8",
		"\u202e\n":                              "is not valid",
		strings.Repeat("é", 200):                strings.Repeat("é", 200),
		strings.Repeat("é", 201):                strings.Repeat("é", 200),
		strings.Repeat("\U0001F600", 150) + "x": strings.Repeat("\U0001F600", 150) + "x",
	} {
		if got := publicText(sent); got != want {
			t.Errorf("%q becomes %q, want %q", sent, got, want)
		}
	}
}
