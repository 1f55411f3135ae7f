package openapitest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"opsgate/gateway/openapi"
)

// A Validator validates exchanges against the document with closed schemas. It is safe for
// concurrent use.
type Validator struct {
	doc        *openapi3.T
	operations []operation
}

// An Operation is one operation of the document: its row of the route table, and examples of its
// input.
type Operation struct {
	ID     string
	Method string
	Path   string   // template: /v1/servers/{id}
	Scope  string   // empty if any valid token is accepted
	Sunset string   // when a deprecated operation may be removed, as in the header Sunset; else empty
	Fields []string // query parameters and properties of the body, sorted
	Query  []string // an example of each query parameter, as "name=value", sorted
	Body   string   // the shortest example of its body; empty if it has none
}

type operation struct {
	Operation
	segments []string
	item     *openapi3.PathItem
	spec     *openapi3.Operation
}

// noScope is the x-required-scope of an operation that any valid token may call.
const noScope = "none"

// shared is the Validator of the embedded document, which never changes.
var shared = sync.OnceValues(func() (*Validator, error) { return newValidator(openapi.JSON()) })

// New returns the Validator of the embedded document.
func New(t testing.TB) *Validator {
	t.Helper()
	return loaded(t, shared)
}

func loaded(t testing.TB, load func() (*Validator, error)) *Validator {
	t.Helper()
	v, err := load()
	if err != nil {
		t.Fatalf("reading the OpenAPI document: %v", err)
	}
	return v
}

// newValidator returns the Validator of a document with changes, whose schemas are then closed.
func newValidator(document []byte, changes ...func(root map[string]any)) (*Validator, error) {
	var root map[string]any
	if err := json.Unmarshal(document, &root); err != nil {
		return nil, fmt.Errorf("the document is not JSON: %w", err)
	}
	for _, change := range append(changes, closeSchemas, addForms) {
		change(root)
	}
	changed, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(changed)
	if err != nil {
		return nil, fmt.Errorf("loading: %w", err)
	}
	v := &Validator{doc: doc}
	for path, item := range doc.Paths.Map() {
		for method, spec := range item.Operations() {
			scope, _ := spec.Extensions["x-required-scope"].(string)
			if scope == "" {
				return nil, fmt.Errorf("%s %s: x-required-scope is missing", method, path)
			}
			if scope == noScope {
				scope = ""
			}
			sunset, err := sunsetOf(spec)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			for _, p := range spec.Parameters { // which allows more than the format
				if p.Value.Name == "since" {
					p.Value.Schema.Value.Format, p.Value.Schema.Value.Pattern = "", sinceForm
				}
			}
			v.operations = append(v.operations, operation{
				Operation: Operation{
					ID: spec.OperationID, Method: method, Path: path, Scope: scope, Sunset: sunset,
					Fields: fieldsOf(spec), Query: queryOf(spec), Body: bodyOf(spec),
				},
				segments: strings.Split(path, "/"), item: item, spec: spec,
			})
		}
	}
	slices.SortFunc(v.operations, func(a, b operation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	return v, nil
}

// fieldsOf returns the names of the query parameters and of the fields of the body.
func fieldsOf(spec *openapi3.Operation) (fields []string) {
	for _, p := range spec.Parameters {
		if p.Value.In == openapi3.ParameterInQuery {
			fields = append(fields, p.Value.Name)
		}
	}
	if spec.RequestBody != nil {
		for name := range spec.RequestBody.Value.Content.Get("application/json").Schema.Value.Properties {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields
}

// queryOf returns an example of each query parameter that has one.
func queryOf(spec *openapi3.Operation) (query []string) {
	for _, p := range spec.Parameters {
		if examples := p.Value.Schema.Value.Examples; p.Value.In == openapi3.ParameterInQuery && len(examples) > 0 {
			query = append(query, url.Values{p.Value.Name: {fmt.Sprint(examples[0])}}.Encode())
		}
	}
	slices.Sort(query)
	return query
}

// bodyOf returns the shortest example of the request body.
func bodyOf(spec *openapi3.Operation) string {
	if spec.RequestBody == nil {
		return ""
	}
	var bodies []string
	for _, example := range spec.RequestBody.Value.Content.Get("application/json").Examples {
		body, err := json.Marshal(example.Value.Value)
		if err == nil {
			bodies = append(bodies, string(body))
		}
	}
	if len(bodies) == 0 {
		return ""
	}
	return slices.MinFunc(bodies, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
}

// Operations returns all operations of the embedded document, by path and then by method. It panics
// if the document cannot be read.
func Operations() []Operation {
	v, err := shared()
	if err != nil {
		panic(err)
	}
	operations := make([]Operation, len(v.operations))
	for i, o := range v.operations {
		operations[i] = o.Operation
	}
	return operations
}

// An Exchange is a request and its response, with their bodies.
type Exchange struct {
	Request     *http.Request
	RequestBody []byte
	Status      int
	Header      http.Header
	Body        []byte // as received, or decompressed
}

// CheckResponse fails the test if the exchange differs from the document, and reports all
// differences.
func (v *Validator) CheckResponse(t testing.TB, x Exchange) {
	t.Helper()
	if err := v.Check(x); err != nil {
		t.Errorf("%s %s: the response %d differs from the OpenAPI document:\n%v\nbody: %.2000s",
			x.Request.Method, x.Request.URL.RequestURI(), x.Status, err, x.Body)
	}
}

// Check returns all differences between the exchange and the document, or nil. If the request
// matches no operation, only an error response is checked.
func (v *Validator) Check(x Exchange) error {
	body, err := x.plainBody()
	if err != nil {
		return err
	}
	x.Body = body
	o, id := v.find(x.Request)
	if o == nil {
		return v.checkUndescribed(x)
	}
	ref := o.spec.Responses.Status(x.Status)
	if ref == nil {
		return fmt.Errorf("operation %s does not describe status %d", o.ID, x.Status)
	}
	errs := []error{checkHeaders(x.Header, o.headers(ref.Value.Headers), nil), checkBody(x, ref.Value)}
	if x.Status < http.StatusBadRequest {
		errs = append(errs, v.checkAccepted(x, o, id))
	} else {
		errs = append(errs, checkError(x.Body, ref.Value, o.Scope))
	}
	return errors.Join(errs...)
}

// find returns the operation that serves a request, or nil, and the ID in its path. GET operations
// serve HEAD too.
func (v *Validator) find(req *http.Request) (o *operation, id string) {
	method := req.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments := strings.Split(req.URL.EscapedPath(), "/")
	for i := range v.operations {
		o := &v.operations[i]
		if o.Method != method {
			continue
		}
		if id, ok := matchSegments(o.segments, segments); ok {
			return o, id
		}
	}
	return nil, ""
}

func matchSegments(template, segments []string) (id string, ok bool) {
	if len(template) != len(segments) {
		return "", false
	}
	for i, want := range template {
		switch {
		case want == "{id}" && segments[i] != "":
			id = segments[i]
		case want != segments[i]:
			return "", false
		}
	}
	return id, true
}

// undescribed returns the component that describes an error response to a request that matches no
// operation.
func undescribed(status int) (component string, ok bool) {
	component, ok = map[int]string{
		http.StatusUnauthorized:                "Unauthorized",
		http.StatusNotFound:                    "NotFound",
		http.StatusTooManyRequests:             "RateLimited",
		http.StatusRequestHeaderFieldsTooLarge: "HeadersTooLarge",
		http.StatusInternalServerError:         "InternalError",
		http.StatusServiceUnavailable:          "Unavailable",
		http.StatusGatewayTimeout:              "Timeout",
	}[status]
	return component, ok
}

// methodNotAllowed describes the response to a method that a path does not support. The document
// has none, as no operation has it.
func (v *Validator) methodNotAllowed() *openapi3.Response {
	other := v.doc.Components.Responses["NotFound"].Value
	headers := maps.Clone(other.Headers)
	headers["Allow"] = requiredHeader(&openapi3.Schema{Type: &openapi3.Types{"string"}, Pattern: `^[A-Z]+(, [A-Z]+)*$`})
	media := *other.Content.Get("application/json")
	media.Examples = openapi3.Examples{"": {Value: &openapi3.Example{Value: map[string]any{"code": "method_not_allowed"}}}}
	return &openapi3.Response{Headers: headers, Content: openapi3.Content{"application/json": &media}}
}

// checkUndescribed validates the response to a request that matches no operation.
func (v *Validator) checkUndescribed(x Exchange) error {
	inAPI := strings.HasPrefix(x.Request.URL.Path, "/v1/")
	if x.Status < http.StatusBadRequest {
		if inAPI && x.Request.Method != http.MethodOptions {
			return errors.New("a path or method that is not in the document was served")
		}
		return nil
	}
	name, ok := undescribed(x.Status)
	if !ok && x.Status != http.StatusMethodNotAllowed {
		return fmt.Errorf("status %d is not allowed for a request that matches no operation", x.Status)
	}
	response := v.methodNotAllowed()
	if ok {
		response = v.doc.Components.Responses[name].Value
	}
	var optional []string
	if !inAPI { // without authentication there are no limits to report
		optional = []string{"RateLimit", "RateLimit-Policy"}
	}
	return errors.Join(checkHeaders(x.Header, response.Headers, optional), checkBody(x, response),
		checkError(x.Body, response, ""))
}

// An errorBody is what checkError reads of an error response.
type errorBody struct {
	Code    string
	Details struct{ Required, RequiredPlan string }
}

// checkError compares the code of an error with that of the response's examples, and what a 403
// lacks with the scope of the operation. It ignores bodies that are no errors, which checkBody
// reports.
func checkError(body []byte, response *openapi3.Response, scope string) error {
	var got errorBody
	var errs []error
	_ = json.Unmarshal(body, &got)
	if got.Code == "" {
		return nil
	}
	if code := codeOf(response); got.Code != code {
		errs = append(errs, fmt.Errorf("code is %q, and the document has %q for this response", got.Code, code))
	}
	switch required, plan := got.Details.Required, got.Details.RequiredPlan; {
	case required != "" && plan != "":
		errs = append(errs, errors.New("details has both required and requiredPlan"))
	case required != "" && required != scope:
		errs = append(errs, fmt.Errorf("details.required is %q, and the document requires %q", required, scope))
	}
	return errors.Join(errs...)
}

// codeOf returns the code of the response's examples, which all have the same.
func codeOf(response *openapi3.Response) (code string) {
	for _, example := range response.Content.Get("application/json").Examples {
		value, _ := example.Value.Value.(map[string]any)
		code, _ = value["code"].(string)
	}
	return code
}

// plainBody returns the decompressed body. The HTTP client may have decompressed it already.
func (x Exchange) plainBody() ([]byte, error) {
	if x.Header.Get("Content-Encoding") != "gzip" || !bytes.HasPrefix(x.Body, []byte{0x1f, 0x8b}) {
		return x.Body, nil
	}
	return unzip(x.Body)
}
