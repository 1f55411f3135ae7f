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
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	"opsgate/ratelimit"
)

// An errorCase is a request with an error response.
type errorCase struct {
	cause  string // in the log
	status int
	code   string

	change  func(*Options)      // options of the gateway; nil for the defaults
	fails   error               // error of ListServers; nil for a success
	method  string              // "" for GET
	target  string              // "" for /v1/servers
	body    string              // "" for none
	request func(*http.Request) // changes the request; nil for none
}

// failingFleet is a FleetServiceClient whose calls for servers return an error.
type failingFleet struct {
	fleetv1.FleetServiceClient
	err error
}

func (f failingFleet) ListServers(context.Context, *fleetv1.ListServersRequest, ...grpc.CallOption) (*fleetv1.ListServersResponse, error) {
	return nil, f.err
}

// A fixedAuthenticator returns the same result for each token.
type fixedAuthenticator struct{ err error }

func (a fixedAuthenticator) Authenticate(context.Context, string, authn.Source) (*authn.Principal, error) {
	return nil, a.err
}

func ofFleet(err error) func(*Options) { return func(o *Options) { o.Fleet = failingFleet{err: err} } }
func ofIdentity(err error) func(*Options) {
	return func(o *Options) { o.Authenticator = fixedAuthenticator{err} }
}
func header(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[name] = values }
}

// errorCases returns requests with every cause.
func errorCases(t *testing.T) []errorCase {
	t.Helper()
	return slices.Concat(authErrorCases(), badInput(), serviceErrorCases(t), identityErrorCases(), gatewayErrorCases())
}

// authErrorCases returns requests that fail authentication or authorization.
func authErrorCases() []errorCase {
	return []errorCase{
		{cause: "limit:hour", status: 429, code: "rate_limited", change: func(o *Options) {
			o.Limiter = scriptedLimiter{decision: ratelimit.Decision{DeniedBy: 1, ShadowDeniedBy: -1, RetryAfter: time.Minute}}
			o.Policies, _ = ratelimit.NewPolicies(ratelimit.Assignment{Policy: hourly()})
		}},
		{cause: "token:missing", status: 401, code: "unauthorized", request: header("Authorization")},
		{cause: "token:ambiguous", status: 401, code: "unauthorized", request: header("Authorization", "Bearer full", "Bearer none")},
		{cause: "token:malformed", status: 401, code: "unauthorized", request: header("Authorization", "Basic full")},
		{cause: "token:malformed", status: 401, code: "unauthorized", change: ofIdentity(authn.ErrMalformed)},
		{cause: "token:unknown", status: 401, code: "unauthorized", change: ofIdentity(authn.ErrNotFound)},
		{cause: "token:revoked", status: 401, code: "unauthorized", change: ofIdentity(authn.ErrRevoked)},
		{cause: "token:expired", status: 401, code: "unauthorized", change: ofIdentity(authn.ErrExpired)},
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

// badInput returns requests with invalid input.
func badInput() []errorCase {
	const incidents, body = "/v1/incidents", newIncident
	return []errorCase{
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

// serviceErrorCases returns requests for each code of a service and each failure of a call.
func serviceErrorCases(t *testing.T) []errorCase {
	t.Helper()
	const commands = "/v1/servers/" + someID + "/commands"
	unavailable := func(reason string) func(*Options) {
		return ofFleet(&backendclient.Error{Service: "fleet", Method: "ListServers", Code: codes.Unavailable, Reason: reason})
	}
	all := []errorCase{
		{cause: "breaker:fleet", status: 503, code: "unavailable", change: unavailable(backendclient.ReasonBreakerOpen)},
		{cause: "overload:fleet", status: 503, code: "unavailable", change: unavailable(backendclient.ReasonOverloaded)},
		{cause: "team-overload:fleet", status: 503, code: "unavailable", change: unavailable(backendclient.ReasonTeamOverloaded)},
		{cause: "contract:fleet", status: 500, code: "internal_error", target: "/v1/servers/" + someID}, // OK without the server
		{cause: "too-large:fleet", status: 500, code: "internal_error", fails: errTooLarge()},
		{cause: "contract:fleet", status: 500, code: "internal_error", fails: status.Error(codes.NotFound, "no servers")},
		{cause: "refused:fleet", status: 500, code: "internal_error", fails: status.Error(codes.PermissionDenied, "RBAC: access denied")},
	}
	kinds := map[codes.Code]string{
		codes.InvalidArgument: "invalid", codes.OutOfRange: "invalid", codes.FailedPrecondition: "invalid",
		codes.NotFound: "not-found", codes.PermissionDenied: "denied", codes.AlreadyExists: "conflict", codes.Aborted: "conflict",
		codes.ResourceExhausted: "throttled", codes.Unimplemented: "unimplemented",
		codes.Unavailable: "unavailable", codes.DeadlineExceeded: "timeout", codes.Unauthenticated: "refused",
	}
	for _, c := range everyCode {
		kind := kinds[c.code]
		if kind == "" {
			kind = "failed"
		}
		if c.status == 422 {
			all = append(all,
				errorCase{cause: "invalid:fleet", status: 422, code: c.name, target: commands, fails: refusal(t, c.code, "", "page")},
				errorCase{cause: "contract:fleet", status: 500, code: "internal_error", target: commands, fails: refusal(t, c.code, "", "server_id")})
			continue
		}
		all = append(all, errorCase{
			cause: kind + ":fleet", status: c.status, code: c.name, target: commands, fails: status.Error(c.code, "the text of the service"),
		})
	}
	return all
}

// errTooLarge returns the error of gRPC for a message that exceeds a size limit.
func errTooLarge() error {
	return status.Error(codes.ResourceExhausted, "grpc: received message larger than max (8388609 vs. 8388608)")
}

// identityErrorCases returns requests whose token is not resolved. All are a 503, except a broken
// contract.
func identityErrorCases() []errorCase {
	failed := func(e *backendclient.Error) func(*Options) {
		e.Service = "identity"
		return ofIdentity(fmt.Errorf("%w: %w", authn.ErrUnavailable, e))
	}
	call := func(code codes.Code, reason string) func(*Options) {
		return failed(&backendclient.Error{Code: code, Reason: reason})
	}
	all := []errorCase{
		{cause: "busy:identity", change: ofIdentity(authn.ErrBusy)},
		{cause: "overload:identity", change: call(codes.Unavailable, backendclient.ReasonOverloaded)},
		{cause: "breaker:identity", change: call(codes.Unavailable, backendclient.ReasonBreakerOpen)},
		{cause: "unavailable:identity", change: call(codes.Unavailable, "")},
		{cause: "timeout:identity", change: call(codes.DeadlineExceeded, "")},
		{cause: "failed:identity", change: call(codes.Internal, "")},
		{cause: "refused:identity", change: failed(&backendclient.Error{Code: codes.PermissionDenied, Refused: true})},
		{cause: "failed:identity", change: call(codes.ResourceExhausted, "")},
		{cause: "failed:identity", change: ofIdentity(fmt.Errorf("%w: no call", authn.ErrUnavailable))},
	}
	for i := range all {
		all[i].status, all[i].code = 503, "unavailable"
	}
	return append(all,
		errorCase{cause: "timeout:identity", status: 504, code: "timeout", change: ofIdentity(fmt.Errorf("wait: %w", context.DeadlineExceeded))},
		errorCase{
			cause: "contract:identity", status: 500, code: "internal_error", change: ofIdentity(fmt.Errorf("%w: no team", authn.ErrContract)),
		},
	)
}

// gatewayErrorCases returns requests that fail in the gateway, and one whose client disconnects.
func gatewayErrorCases() []errorCase {
	return []errorCase{
		{cause: "unavailable:limiter", status: 503, code: "unavailable", change: func(o *Options) {
			o.Limiter = scriptedLimiter{err: errors.New("unavailable")}
		}},
		{cause: "overload", status: 503, code: "unavailable", change: func(o *Options) { o.LoadLimit.SetLimit(0) }},
		{cause: "client-gone", status: 499, code: "client_closed_request", request: func(r *http.Request) {
			ctx, disconnect := context.WithCancel(r.Context())
			disconnect()
			*r = *r.WithContext(ctx)
		}},
		{cause: "panic", status: 500, code: "internal_error", change: func(o *Options) { o.Authenticator = nilAuthenticator{} }},
		{cause: "internal", status: 500, code: "internal_error", change: ofFleet(errors.New("unexpected"))},
	}
}

// run sends the request and returns its log line, which a shed request does not have.
func (m errorCase) run(t *testing.T, h *harness) (line map[string]any) {
	t.Helper()
	before := len(h.log.String())
	m.send(t, h)
	return lineIn(t, h.log.String()[before:])
}

func lineIn(t *testing.T, log string) (line map[string]any) {
	t.Helper()
	if log != "" {
		if err := json.Unmarshal([]byte(log), &line); err != nil {
			t.Fatalf("%s: %v", log, err)
		}
	}
	return line
}

// send sends the request, and returns the response when the request has been logged.
func (m errorCase) send(t *testing.T, h *harness) *httptest.ResponseRecorder {
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

// The reader of an error finds what its code means.
func TestEveryCauseIsLoggedCountedAndExplained(t *testing.T) {
	guide := start(t).get(t, "/docs/errors/").mustBe(t, 200).body
	codes := make(map[string]bool)
	for _, m := range errorCases(t) {
		t.Run(m.cause, func(t *testing.T) {
			limits, calls := limitLines(true)
			h := start(t, m.change, limits, func(o *Options) { o.TLS = true })
			if got := m.send(t, h); m.status != statusClientClosed {
				checkError(t, m, got, guide)
				codes[m.code] = true
			}
			if diff := gocmp.Diff(limitOfLine(m), *calls); diff != "" {
				t.Errorf("limits of lines: %s", diff)
			}
			line := lineIn(t, h.log.String())
			label := m.cause
			if strings.HasPrefix(label, "limit:") {
				label = "limit"
			}
			if got := onlyRequest(t, h); got["cause"] != label || got["status"] != strconv.Itoa(m.status) || got["code"] != m.code {
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
			text, _ := line["error"].(string)
			if of, _ := status.FromError(m.fails); !strings.Contains(text, of.Message()) {
				t.Errorf("logged the error %q, without %q of the service", text, of.Message())
			}
		})
	}
	if len(codes) < 15 {
		t.Errorf("only the codes %v were checked", codes)
	}
}

// checkError checks an error over TLS: its body, its headers, and that it links to the guide.
func checkError(t *testing.T, m errorCase, got *httptest.ResponseRecorder, guide string) {
	t.Helper()
	var e struct{ Code string }
	testkit.Must(t, json.Unmarshal(got.Body.Bytes(), &e))
	if link, want := got.Header().Get("Link"), "</docs/errors/#"+e.Code+`>; rel="help"`; e.Code != m.code || link != want {
		t.Errorf("code %s, Link %s, want %s", e.Code, link, want)
	}
	if !strings.Contains(guide, ` id="`+e.Code+`"`) {
		t.Errorf("the guide has no anchor %s", e.Code)
	}
	if wants := m.status == 409 || m.status == 429 || m.status == 503; wants != (got.Header().Get("Retry-After") != "") {
		t.Errorf("Retry-After %q", got.Header().Get("Retry-After"))
	}
	challenge := map[string]string{
		"token:missing": "Bearer", "token:revoked": `Bearer error="invalid_token"`,
		"scope": `Bearer error="insufficient_scope", scope="servers:read"`, "plan": "",
	}
	if want, known := challenge[m.cause]; known && got.Header().Get("Www-Authenticate") != want {
		t.Errorf("WWW-Authenticate %q, want %q", got.Header().Get("Www-Authenticate"), want)
	}
	mustBeSecure(t, m.cause, got.Header(), true)
	if m.cause == "limit:hour" && len(got.Header()) > 9 { // with Strict-Transport-Security
		t.Errorf("%d fields: %v", len(got.Header()), got.Header())
	}
}

// onlyRequest returns the labels of the one label request.
func onlyRequest(t *testing.T, h *harness) map[string]string {
	t.Helper()
	families, err := h.registry.Gather()
	testkit.Must(t, err)
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

// A row is the documentation of a cause.
type row struct{ cause, status string }

// docs/operate/errors.md lists all causes with their status.
func TestEveryCauseIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/operate/errors.md")
	testkit.Must(t, err)
	documented, actual := map[row]bool{}, map[row]bool{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([\\w:-]+)` \\| (\\d{3}) \\|").FindAllStringSubmatch(string(page), -1) {
		documented[row{match[1], match[2]}] = true
	}
	for _, m := range errorCases(t) {
		actual[row{documentedAs(m.cause), strconv.Itoa(m.status)}] = true
	}
	if diff := gocmp.Diff(actual, documented); diff != "" {
		t.Errorf("-actual +documented: %s", diff)
	}
	var all []string
	for r := range documented {
		all = append(all, r.cause)
	}
	for _, cause := range declared(t) {
		if !slices.Contains(all, cause) {
			t.Errorf("%s is declared, but not tested and documented", cause)
		}
	}
}

// documentedAs returns the cause as in docs/operate/errors.md, with a placeholder for the service
// or limit.
func documentedAs(cause string) string {
	cause = strings.Replace(cause, ":fleet", ":SERVICE", 1)
	if strings.HasPrefix(cause, "limit:") {
		return "limit:LIMIT"
	}
	return cause
}

// declared returns the causes in the source, as in docs/operate/errors.md.
func declared(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "cause.go", nil, 0)
	testkit.Must(t, err)
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
