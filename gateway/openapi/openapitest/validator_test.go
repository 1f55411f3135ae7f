package openapitest

import (
	"bytes"
	"cmp"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"opsgate/gateway/openapi"
	"opsgate/internal/testkit"
)

const (
	serverPath   = "/v1/servers/0198c5b3-0d1e-7f55-a3c8-91b47e20d6fa"
	incidentPath = "/v1/incidents/0198c5b7-0a25-7f6c-b1d8-49e36fa0c72d"
	noResource   = `{"error":"no such resource","code":"not_found"}`
)

// exampleServer is an example of the document.
const exampleServer = `{
	"id": "0198c5b3-0d1e-7f55-a3c8-91b47e20d6fa", "name": "api-fra-1", "host": "203.0.113.17", "os": "Debian 12",
	"tags": ["production"], "groupId": null, "lastSeenAt": "2026-01-02T03:04:05.678Z", "createdAt": "2025-06-11T08:30:00.000Z"}`

// with sets headers over others; "" removes a header.
func with(header http.Header, pairs ...string) http.Header {
	h := header.Clone()
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			h.Del(pairs[i])
			continue
		}
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// errorHeaders returns the headers of an error for an authenticated client.
func errorHeaders(pairs ...string) http.Header {
	return with(commonHeaders("Link", `</docs/errors/#code>; rel="help"`), pairs...)
}

// commonHeaders returns the headers of every response to an authenticated client.
func commonHeaders(pairs ...string) http.Header {
	return with(http.Header{}, append([]string{
		"X-Request-Id", "a-1", "Cache-Control", "private, no-cache", "Content-Type", contentTypeJSON, "Content-Length", "1",
		"RateLimit-Policy", `"second";q=3;w=1, "hour";q=5000;w=3600`, "RateLimit", `"second";r=2;t=0, "hour";r=4999;t=3600`,
	}, pairs...)...)
}

// failure returns the body of an error without details.
func failure(code string) string { return `{"error":"text","code":"` + code + `"}` }

func getHeaders(pairs ...string) http.Header {
	return with(commonHeaders("ETag", `"5f0c6d9be1a47238"`, "Vary", "Accept-Encoding"), pairs...)
}

func postHeaders(pairs ...string) http.Header {
	return with(commonHeaders("Vary", "Accept-Encoding"), pairs...)
}

func exchange(method, target string, status int, header http.Header, body string) Exchange {
	return Exchange{
		Request: httptest.NewRequest(method, target, http.NoBody), Status: status, Header: header, Body: []byte(body),
	}
}

func post(target, requestBody string, status int, header http.Header, body string) Exchange {
	x := exchange(http.MethodPost, target, status, header, body)
	x.RequestBody = []byte(requestBody)
	return x
}

const (
	newIncident = `{"title":"Late","status":"identified","impact":"minor","message":"Slow disk.","statusPageId":null}`
	created     = `{"id":"0198c5b7-0a25-7f6c-b1d8-49e36fa0c72d","title":"Late","status":"identified"}`
	emptyPage   = `{"items":[],"nextCursor":null}`
	posted      = `{"id":"0198c5b7-0a25-7f6c-b1d8-49e36fa0c72d","status":"resolved"}`
	forbidden   = `{"error":"this token lacks the scope servers:read","code":"forbidden","details":{"required":"servers:read"}}`
)

func TestResponsesThatAreNotDescribedFail(t *testing.T) {
	v := New(t)
	server := func(old, replacement string) string {
		t.Helper()
		body := strings.Replace(exampleServer, old, replacement, 1)
		if body == exampleServer {
			t.Fatalf("%s is not in the example", old)
		}
		return body
	}
	get := func(body string) Exchange { return exchange("GET", serverPath, 200, getHeaders(), body) }
	cases := map[string]struct {
		x    Exchange
		want string
	}{
		"an extra field":        {get(server(`"os"`, `"sshKey":"x","os"`)), `property "sshKey" is unsupported`},
		"a missing field":       {get(server(`"groupId": null,`, ``)), `property "groupId" is missing`},
		"a wrong type":          {get(server(`"api-fra-1"`, `7`)), "at /name: value must be a string"},
		"null for a list":       {get(server(`["production"]`, `null`)), "at /tags"},
		"null for a name":       {get(server(`"api-fra-1"`, `null`)), "at /name"},
		"microseconds":          {get(server(`05.678Z`, `05.678901Z`)), "at /lastSeenAt"},
		"no milliseconds":       {get(server(`30:00.000Z`, `30:00Z`)), "at /createdAt"},
		"another zone":          {get(server(`05.678Z`, `05.678+01:00`)), "at /lastSeenAt"},
		"an id in upper case":   {get(server(`"0198c5b3`, `"0198C5B3`)), "at /id"},
		"data after the object": {get(exampleServer + `{}`), "not JSON"},
		"not UTF-8":             {get(server("api-fra-1", "\xff")), "not UTF-8"},
		"no body":               {get(""), "not JSON"},
		"an undocumented status": {
			exchange("GET", serverPath, 202, getHeaders(), exampleServer), "does not describe status 202"},
		"a status of another operation": {exchange("GET", "/v1/me", 404, errorHeaders(), noResource), "does not describe status 404"},
		"an undocumented header": {
			exchange("GET", serverPath, 200, getHeaders("X-Powered-By", "x"), exampleServer), "X-Powered-By is not described"},
		"a missing header": {exchange("GET", serverPath, 200, getHeaders("ETag", ""), exampleServer), "ETag is missing"},
		"a weak tag":       {exchange("GET", serverPath, 200, getHeaders("ETag", `W/"a"`), exampleServer), "ETag"},
		"a header twice": {func() Exchange {
			x := exchange("GET", serverPath, 200, getHeaders(), exampleServer)
			x.Header.Add("Vary", "Origin")
			return x
		}(), "Vary was sent 2 times"},
		"another content type": {exchange("GET", serverPath, 200, getHeaders("Content-Type", "text/html"), exampleServer), "Content-Type"},
		"a body to HEAD":       {exchange("HEAD", serverPath, 200, getHeaders(), exampleServer), "the response to HEAD has a body"},
		"a body with 304":      {exchange("GET", serverPath, 304, getHeaders(), exampleServer), "the document describes none"},
		"a fraction to wait": {
			exchange("GET", serverPath, 429, errorHeaders("Retry-After", "0.5"), failure("rate_limited")), "Retry-After"},
		"no time to wait": {
			exchange("GET", serverPath, 429, errorHeaders("Retry-After", "0"), failure("rate_limited")), "Retry-After"},
		"another code":    {exchange("GET", serverPath, 404, errorHeaders(), failure("forbidden")), `code is "forbidden", and the document has "not_found"`},
		"an unknown code": {exchange("GET", serverPath, 404, errorHeaders(), failure("gone")), "at /code"},
		"details with 404": {
			exchange("GET", serverPath, 404, errorHeaders(), `{"error":"x","code":"not_found","details":{}}`),
			`property "details" is unsupported`},
		"422 without details": {post("/v1/incidents", `{}`, 422, errorHeaders(), failure("validation_error")), `property "details" is missing`},
		"another scope":       {exchange("GET", "/v1/audit", 403, errorHeaders(), forbidden), `the document requires "audit:read"`},
		"a scope for me":      {exchange("GET", "/v1/me", 403, errorHeaders(), forbidden), `the document requires ""`},
		"a scope and a plan": {
			exchange("GET", "/v1/servers", 403, errorHeaders(), strings.Replace(forbidden, `{"required"`, `{"requiredPlan":"ai","required"`, 1)),
			"both required and requiredPlan"},
		"neither a scope nor a plan": {
			exchange("GET", "/v1/servers", 403, errorHeaders(), `{"error":"x","code":"forbidden","details":{}}`), "at /details"},
		"an unknown status": {
			post("/v1/incidents", newIncident, 200, postHeaders(), strings.Replace(created, "identified", "open", 1)), "at /status"},
		"an unknown path":      {exchange("GET", "/v1/nothing", 200, getHeaders(), `[]`), "was served"},
		"an unknown method":    {exchange("DELETE", serverPath, 200, getHeaders(), `{}`), "was served"},
		"plain text outside":   {exchange("GET", "/nothing", 404, errorHeaders(), `404 page not found`), "not JSON"},
		"a status outside /v1": {exchange("GET", "/nothing", 400, errorHeaders(), noResource), "status 400"},
		"no limits in the API": {exchange("GET", "/v1/nothing", 404, errorHeaders("RateLimit", ""), noResource), "RateLimit is missing"},
		"a limit too large":    {exchange("GET", "/v1/incidents?limit=101", 200, getHeaders(), emptyPage), "the document forbids it"},
		"a bad id":             {exchange("GET", "/v1/servers/x", 200, getHeaders(), exampleServer), "the document forbids it"},
		"an unknown field": {
			post("/v1/incidents", `{"titel":1,`+newIncident[1:], 200, postHeaders(), created), "the document forbids it"},
		"a blank title": {
			post(incidentPath+"/updates", `{"status":"resolved","message":" "}`, 200, postHeaders(), posted), "the document forbids it"},
		"not gzip": {exchange("GET", serverPath, 200, getHeaders("Content-Encoding", "gzip"), "\x1f\x8b broken"), "not gzip"},
	}
	for name, c := range cases {
		if err := v.Check(c.x); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestStrictValidatorRefusesUnlistedValues(t *testing.T) {
	audit := func(action string) Exchange {
		return exchange("GET", "/v1/audit", 200, getHeaders(), `{"items":[{"id":"2dc3cfc2-9f83-5ab1-a2b3-0d4ca0824002","actionType":"`+action+
			`","resourceType":"incident","resourceId":"76181761-093f-52df-8402-bd54ca0c498b","ipAddress":"203.0.113.7",`+
			`"createdAt":"2026-01-02T03:04:05.678Z"}],"nextCursor":null}`)
	}
	if err := NewStrict(t).Check(audit("incident.created")); err != nil {
		t.Error(err)
	}
	if err := NewStrict(t).Check(audit("incident.merged")); err == nil || !strings.Contains(err.Error(), "at /items/0/actionType") {
		t.Errorf("an unlisted action: %v", err)
	}
	if err := New(t).Check(audit("incident.merged")); err != nil {
		t.Errorf("an unlisted action of a service: %v", err)
	}
}

func TestLooseValidatorAcceptsWhatTheGatewayDoesNotCheck(t *testing.T) {
	groups := exchange("GET", "/v1/server-groups", 200, getHeaders(), `[{"id":"7","name":"web","color":"red","position":1}]`)
	if err := New(t).Check(groups); err == nil || !strings.Contains(err.Error(), "at /0/id") {
		t.Errorf("an ID and a colour of another form: %v", err)
	}
	if err := NewLoose(t).Check(groups); err != nil {
		t.Error(err)
	}
}

func TestOperationWithoutScopeIsRejected(t *testing.T) {
	const document = `{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{"/a":{"get":{"responses":{}}}}}`
	if _, err := newValidator([]byte(document)); err == nil || !strings.Contains(err.Error(), "x-required-scope") {
		t.Errorf("err = %v", err)
	}
	for _, broken := range []string{`{`, `{"openapi":7}`} {
		if _, err := newValidator([]byte(broken)); err == nil {
			t.Errorf("%s: accepted", broken)
		}
	}
}

func TestDeprecatedOperationNeedsItsHeaders(t *testing.T) {
	const operation = `"operationId":"v1ListServers"`
	deprecated := func(with string) []byte {
		return bytes.Replace(openapi.JSON(), []byte(operation), []byte(operation+with), 1)
	}
	v, err := newValidator(deprecated(`,"deprecated":true,"x-sunset":"2028-01-01"`))
	testkit.Must(t, err)
	const sunset = "Sat, 01 Jan 2028 00:00:00 GMT"
	for name, c := range map[string]struct{ path, deprecation, sunset, want string }{
		"both":              {"/v1/servers", "@1798761600", sunset, ""},
		"neither":           {"/v1/servers", "", "", "Deprecation is missing"},
		"another time":      {"/v1/servers", "@1798761600", "Sun, 02 Jan 2028 00:00:00 GMT", "Sunset"},
		"another operation": {"/v1/server-groups", "@1798761600", sunset, "Sunset is not described"},
	} {
		err := v.Check(exchange("GET", c.path, 200, getHeaders("Deprecation", c.deprecation, "Sunset", c.sunset), "[]"))
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, incomplete := range []string{`,"deprecated":true`, `,"x-sunset":"2028-01-01"`, `,"deprecated":true,"x-sunset":"soon"`} {
		if _, err := newValidator(deprecated(incomplete)); err == nil || !strings.Contains(err.Error(), "x-sunset") {
			t.Errorf("%s: %v", incomplete, err)
		}
	}
}

func TestOperationsReturnsRoutesAndExamples(t *testing.T) {
	operations := Operations()
	for _, want := range []Operation{
		{ID: "v1Me", Method: http.MethodGet, Path: "/v1/me"},
		{
			ID: "v1ListServerCommands", Method: http.MethodGet, Path: "/v1/servers/{id}/commands", Scope: "commands:read",
			Fields: []string{"page", "pageSize"}, Query: []string{"page=2", "pageSize=50"},
		},
		{
			ID: "v1AddIncidentUpdate", Method: http.MethodPost, Path: "/v1/incidents/{id}/updates", Scope: "incidents:write",
			Fields: []string{"message", "notifySubscribers", "status"},
			Body:   `{"message":"Error rates are normal again.","notifySubscribers":false,"status":"resolved"}`,
		},
	} {
		if !slices.ContainsFunc(operations, func(o Operation) bool { return reflect.DeepEqual(o, want) }) {
			t.Errorf("%+v is not among %+v", want, operations)
		}
	}
	if !slices.IsSortedFunc(operations, func(a, b Operation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
	}) {
		t.Error("operations are not sorted")
	}
}
