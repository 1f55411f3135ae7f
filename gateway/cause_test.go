package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	"opsgate/backendclient"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	"opsgate/ratelimit"
)

// A mishap is a request that is refused or fails.
type mishap struct {
	cause  string // in the log
	status int
	code   string

	change  func(*Options)      // what is not usual of the gateway; nil for nothing
	fails   error               // what ListServers fails with; nil for an answer
	method  string              // "" for GET
	target  string              // "" for /v1/servers
	body    string              // "" for none
	request func(*http.Request) // what else is not usual of the request; nil for nothing
}

// aFleet fails, as far as servers are concerned.
type aFleet struct {
	fleetv1.FleetServiceClient
	err error
}

func (f aFleet) ListServers(context.Context, *fleetv1.ListServersRequest, ...grpc.CallOption) (*fleetv1.ListServersResponse, error) {
	return nil, f.err
}

// an authority says the same of every token.
type authority struct{ err error }

func (a authority) Authenticate(context.Context, string, authn.Source) (*authn.Principal, error) {
	return nil, a.err
}

func ofFleet(err error) func(*Options) { return func(o *Options) { o.Fleet = aFleet{err: err} } }
func ofIdentity(err error) func(*Options) {
	return func(o *Options) { o.Authenticator = authority{err} }
}
func header(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[name] = values }
}

// mishaps are of every cause.
func mishaps(t *testing.T) []mishap {
	t.Helper()
	return slices.Concat(refusals(), badInput(), mishapsOfServices(t), mishapsOfIdentity(), mishapsOfOurs())
}

// refusals are for who calls, and what for.
func refusals() []mishap {
	return []mishap{
		{cause: "limit:hour", status: 429, code: "rate_limited", change: func(o *Options) {
			o.Limiter = scriptedLimiter{decision: ratelimit.Decision{Denied: 1, Shadowed: -1, RetryAfter: time.Minute}}
			o.Policies, _ = ratelimit.NewPolicies(ratelimit.Assignment{Policy: hourly()})
		}},
		{cause: "token:missing", status: 401, code: "unauthorized", request: header("Authorization")},
		{cause: "token:ambiguous", status: 401, code: "unauthorized", request: header("Authorization", "Bearer full", "Bearer none")},
		{cause: "token:malformed", status: 401, code: "unauthorized", request: header("Authorization", "Basic full")},
		{cause: "token:malformed", status: 401, code: "unauthorized", change: ofIdentity(authn.ErrMalformed)},
		{cause: "token:unknown", status: 401, code: "unauthorized", change: ofIdentity(authn.ErrUnknown)},
		{cause: "token:revoked", status: 401, code: "unauthorized", change: ofIdentity(authn.ErrRevoked)},
		{cause: "plan", status: 403, code: "forbidden", request: header("Authorization", "Bearer no_plan")},
		{cause: "scope", status: 403, code: "forbidden", request: header("Authorization", "Bearer none")},
		{cause: "route", status: 404, code: "not_found", target: "/v1/nothing"},
		{cause: "route", status: 404, code: "not_found", target: "/v1//servers"},
		{cause: "route", status: 404, code: "not_found", target: "/docs/nothing"},
		{cause: "method", status: 405, code: "method_not_allowed", method: "PUT"},
	}
}

func hourly() *ratelimit.Policy {
	p, _ := ratelimit.NewPolicy([]ratelimit.Limit{{Name: "second", Requests: 1, Per: time.Second}, {Name: "hour", Requests: 1, Per: time.Hour}})
	return p
}

// badInput is what a client's request may have wrong.
func badInput() []mishap {
	const incidents, body = "/v1/incidents", `{"title":"t","status":"resolved","impact":"none","message":"m"}`
	return []mishap{
		{cause: "input:path", status: 404, code: "not_found", target: "/v1/servers/7"},
		{cause: "input:query", status: 422, code: "validation_error", target: incidents + "?limit=0"},
		{cause: "input:body", status: 422, code: "validation_error", method: "POST", target: incidents, body: "{"},
		{cause: "input:body", status: 422, code: "validation_error", method: "POST", target: incidents, body: `{"titel":"t"}`},
		{cause: "input:body", status: 422, code: "validation_error", method: "POST", target: incidents, body: body + " ", request: func(r *http.Request) {
			r.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
		}},
		{cause: "input:key", status: 422, code: "validation_error", method: "POST", target: incidents, body: body, request: header("Idempotency-Key", "a b")},
		{cause: "input:media-type", status: 415, code: "unsupported_media_type", method: "POST", target: incidents, body: body, request: header("Content-Type", "text/plain")},
		{cause: "input:header", status: 431, code: "headers_too_large", target: incidents, change: func(o *Options) { o.MaxHeaderBytes = 10 }},
		{cause: "input:timeout", status: 408, code: "request_timeout", change: ofFleet(requestTimeout(io.ErrUnexpectedEOF))},
		{cause: "input:size", status: 413, code: "payload_too_large", method: "POST", target: incidents, body: body, change: func(o *Options) { o.MaxBodyBytes = 10 }},
	}
}

// mishapsOfServices are of all that a service may say, and of what is said in its place.
func mishapsOfServices(t *testing.T) []mishap {
	t.Helper()
	const commands = "/v1/servers/" + someID + "/commands"
	ours := func(reason string) func(*Options) {
		return ofFleet(&backendclient.Error{Service: "fleet", Method: "ListServers", Code: codes.Unavailable, Reason: reason})
	}
	all := []mishap{
		{cause: "breaker:fleet", status: 503, code: "unavailable", change: ours(backendclient.ReasonBreakerOpen)},
		{cause: "overload:fleet", status: 503, code: "unavailable", change: ours(backendclient.ReasonOverloaded)},
		{cause: "contract:fleet", status: 500, code: "internal_error", target: "/v1/servers/" + someID}, // OK, and no server
	}
	words := map[codes.Code]string{
		codes.InvalidArgument: "invalid", codes.OutOfRange: "invalid", codes.FailedPrecondition: "invalid",
		codes.NotFound: "not-found", codes.PermissionDenied: "denied", codes.AlreadyExists: "conflict", codes.Aborted: "conflict",
		codes.ResourceExhausted: "throttled", codes.Unimplemented: "unimplemented",
		codes.Unavailable: "unavailable", codes.DeadlineExceeded: "timeout",
	}
	for _, c := range everyCode {
		word := words[c.code]
		if word == "" {
			word = "failed"
		}
		if c.status == 422 {
			all = append(all,
				mishap{cause: "invalid:fleet", status: 422, code: c.name, target: commands, fails: refusal(t, c.code, "", "page")},
				mishap{cause: "contract:fleet", status: 500, code: "internal_error", target: commands, fails: refusal(t, c.code, "", "server_id")})
			continue
		}
		all = append(all, mishap{cause: word + ":fleet", status: c.status, code: c.name, fails: status.Error(c.code, "")})
	}
	return all
}

// mishapsOfIdentity come to the same for a client, but for a broken contract: the service could not tell whom its token stands for.
func mishapsOfIdentity() []mishap {
	call := func(code codes.Code, reason string) func(*Options) {
		return ofIdentity(fmt.Errorf("%w: %w", authn.ErrUnavailable, &backendclient.Error{Service: "identity", Code: code, Reason: reason}))
	}
	all := []mishap{
		{cause: "busy:identity", change: ofIdentity(authn.ErrBusy)},
		{cause: "overload:identity", change: call(codes.Unavailable, backendclient.ReasonOverloaded)},
		{cause: "breaker:identity", change: call(codes.Unavailable, backendclient.ReasonBreakerOpen)},
		{cause: "unavailable:identity", change: call(codes.Unavailable, "")},
		{cause: "timeout:identity", change: call(codes.DeadlineExceeded, "")},
		{cause: "failed:identity", change: call(codes.Internal, "")},
		{cause: "failed:identity", change: call(codes.ResourceExhausted, "")},
		{cause: "failed:identity", change: ofIdentity(fmt.Errorf("%w: no call", authn.ErrUnavailable))},
	}
	for i := range all {
		all[i].status, all[i].code = 503, "unavailable"
	}
	return append(all, mishap{
		cause: "contract:identity", status: 500, code: "internal_error", change: ofIdentity(fmt.Errorf("%w: no team", authn.ErrContract)),
	})
}

// mishapsOfOurs are the gateway's, and the client's that hangs up.
func mishapsOfOurs() []mishap {
	return []mishap{
		{cause: "unavailable:limiter", status: 503, code: "unavailable", change: func(o *Options) {
			o.Limiter = scriptedLimiter{err: errors.New("away")}
		}},
		{cause: "overload", status: 503, code: "unavailable", change: func(o *Options) { o.Capacity.SetLimit(0) }},
		{cause: "client-gone", status: 499, code: "client_closed_request", request: func(r *http.Request) {
			ctx, hangUp := context.WithCancel(r.Context())
			hangUp()
			*r = *r.WithContext(ctx)
		}},
		{cause: "timeout", status: 504, code: "timeout", change: ofFleet(context.DeadlineExceeded)},
		{cause: "panic", status: 500, code: "internal_error", change: func(o *Options) { o.Authenticator = nilAuthenticator{} }},
		{cause: "internal", status: 500, code: "internal_error", change: ofFleet(errors.New("odd"))},
	}
}

// happen has a mishap happen, and returns the log's line of it, which there is none of where it was refused unread.
func (m mishap) happen(t *testing.T, h *harness) (line map[string]any) {
	t.Helper()
	before := len(h.log.String())
	m.send(t, h)
	if log := h.log.String()[before:]; log != "" {
		if err := json.Unmarshal([]byte(log), &line); err != nil {
			t.Fatalf("%s: %v", log, err)
		}
	}
	return line
}

// send sends the request, and returns the answer when all that is to be known of it is known.
func (m mishap) send(t *testing.T, h *harness) *httptest.ResponseRecorder {
	t.Helper()
	if m.fails != nil {
		h.services.fail("", m.fails)
	} else {
		h.services.reply("ListServers", &fleetv1.ListServersResponse{})
	}
	h.services.reply("GetServer", &fleetv1.GetServerResponse{})
	r := httptest.NewRequestWithContext(t.Context(), cmp.Or(m.method, http.MethodGet), cmp.Or(m.target, "/v1/servers"), strings.NewReader(m.body))
	r.Header.Set("Authorization", "Bearer full")
	if m.request != nil {
		m.request(r)
	}
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
			panic(v)
		}
	}()
	w := httptest.NewRecorder()
	h.gateway.ServeHTTP(w, r)
	return w
}

func TestEveryCauseIsLoggedAndCounted(t *testing.T) {
	for _, m := range mishaps(t) {
		t.Run(m.cause, func(t *testing.T) {
			var change []func(*Options)
			if m.change != nil {
				change = append(change, m.change)
			}
			h := start(t, change...)
			line := m.happen(t, h)
			counted := m.cause
			if strings.HasPrefix(counted, "limit:") {
				counted = "limit"
			}
			if got := theOnlyRequest(t, h); got["cause"] != counted || got["status"] != strconv.Itoa(m.status) || got["code"] != m.code {
				t.Errorf("counted: %v", got)
			}
			if m.cause == "overload" {
				if line != nil {
					t.Errorf("logged: %v, want nothing", line)
				}
				return
			}
			if line["cause"] != m.cause || line["status"] != float64(m.status) || line["code"] != m.code || line["client"] != "192.0.2.1" {
				t.Errorf("logged: %v", line)
			}
		})
	}
}

// theOnlyRequest returns the labels of the one request that was counted.
func theOnlyRequest(t *testing.T, h *harness) map[string]string {
	t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := make(map[string]string)
	for _, f := range families {
		if f.GetName() != "opsgate_http_requests_total" {
			continue
		}
		if n := len(f.GetMetric()); n != 1 {
			t.Fatalf("%d series, want 1: %v", n, f)
		}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
	}
	return labels
}

// A row is what the documentation says of a cause.
type row struct{ cause, status, code string }

// The documentation lists the causes that there are, each with what comes of it.
func TestEveryCauseIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	documented, happening := map[row]bool{}, map[row]bool{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([\\w:-]+)` \\| (\\d{3}) \\| `(\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		documented[row{match[1], match[2], match[3]}] = true
	}
	for _, m := range mishaps(t) {
		happening[row{generally(m.cause), strconv.Itoa(m.status), m.code}] = true
	}
	if diff := gocmp.Diff(happening, documented); diff != "" {
		t.Errorf("what happens, and what is documented: %s", diff)
	}
	var all []string
	for r := range documented {
		all = append(all, r.cause)
	}
	for _, cause := range declared(t) {
		if !slices.Contains(all, cause) {
			t.Errorf("%s is declared, and neither happens here nor is documented", cause)
		}
	}
}

// generally is the cause as the documentation has it.
func generally(cause string) string {
	cause = strings.Replace(cause, ":fleet", ":SERVICE", 1)
	if strings.HasPrefix(cause, "limit:") {
		return "limit:LIMIT"
	}
	return cause
}

// declared returns the causes of the source, as the documentation has them.
func declared(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "cause.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		kind, _ := spec.Type.(*ast.Ident)
		value, _ := spec.Values[0].(*ast.BasicLit)
		text, err := strconv.Unquote(value.Value)
		switch {
		case kind == nil || err != nil:
			t.Errorf("%v is not of the form that causes are declared in", spec.Names)
		case kind.Name == "failureKind":
			text += ":SERVICE"
		case spec.Names[0].Name == "causeLimit":
			text += ":LIMIT"
		}
		found[text] = true
		return true
	})
	return slices.Sorted(maps.Keys(found))
}
