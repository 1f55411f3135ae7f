package openapitest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

const contentTypeJSON = "application/json; charset=utf-8"

// transportHeaders returns headers for HTTP libraries and browsers, which the document does not
// list.
func transportHeaders() []string {
	return []string{
		"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Keep-Alive", "Transfer-Encoding",
		"Strict-Transport-Security", "X-Content-Type-Options",
	}
}

// checkHeaders compares the headers of a response with the described ones, in both directions. The
// optional ones may be missing even if the document requires them.
func checkHeaders(header http.Header, described openapi3.Headers, optional []string) error {
	var errs []error
	known := transportHeaders()
	for _, name := range slices.Sorted(maps.Keys(described)) {
		known = append(known, http.CanonicalHeaderKey(name))
		spec := described[name].Value
		switch values := header.Values(name); {
		case len(values) == 0:
			if spec.Required && !slices.Contains(optional, name) {
				errs = append(errs, fmt.Errorf("header %s is missing", name))
			}
		case len(values) > 1:
			errs = append(errs, fmt.Errorf("header %s was sent %d times", name, len(values)))
		default:
			if err := checkHeader(values[0], spec.Schema.Value); err != nil {
				errs = append(errs, fmt.Errorf("header %s: %w", name, err))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if !slices.Contains(known, http.CanonicalHeaderKey(name)) {
			errs = append(errs, fmt.Errorf("header %s is not described", name))
		}
	}
	return errors.Join(errs...)
}

func checkHeader(text string, schema *openapi3.Schema) error {
	if !schema.Type.Is("integer") {
		return schema.VisitJSON(text)
	}
	n, err := strconv.ParseUint(text, 10, 31) // without sign and fraction
	if err != nil {
		return fmt.Errorf("%q is not a whole number", text)
	}
	return schema.VisitJSON(float64(n))
}

// checkBody validates a body against the response's schema.
func checkBody(x Exchange, response *openapi3.Response) error {
	media := response.Content.Get("application/json")
	if media == nil {
		if len(x.Body) > 0 {
			return errors.New("the response has a body, but the document describes none")
		}
		return nil
	}
	if got := x.Header.Get("Content-Type"); got != contentTypeJSON {
		return fmt.Errorf("Content-Type is %q", got)
	}
	if x.Request.Method == http.MethodHead {
		if len(x.Body) > 0 {
			return errors.New("the response to HEAD has a body")
		}
		return nil
	}
	if !utf8.Valid(x.Body) {
		return errors.New("the body is not UTF-8")
	}
	var value any
	if err := json.Unmarshal(x.Body, &value); err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	if err := media.Schema.Value.VisitJSON(value, openapi3.MultiErrors()); err != nil {
		return fmt.Errorf("the body does not match its schema: %s", reasons(err))
	}
	return nil
}

// reasons returns the positions and reasons of mismatches, without the schema and the value.
func reasons(err error) string {
	if several, ok := errors.AsType[openapi3.MultiError](err); ok {
		texts := make([]string, len(several))
		for i, e := range several {
			texts[i] = reasons(e)
		}
		return strings.Join(texts, "; ")
	}
	if mismatch, ok := errors.AsType[*openapi3.SchemaError](err); ok {
		return fmt.Sprintf("at /%s: %s", strings.Join(mismatch.JSONPointer(), "/"), mismatch.Reason)
	}
	return err.Error()
}

// checkAccepted validates a request that was accepted.
func (v *Validator) checkAccepted(x Exchange, o *operation, id string) error {
	req := x.Request.Clone(context.Background())
	req.Body = io.NopCloser(bytes.NewReader(x.RequestBody))
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json") // the gateway treats a missing type as JSON
	}
	err := openapi3filter.ValidateRequest(context.Background(), &openapi3filter.RequestValidationInput{
		Request:    req,
		PathParams: map[string]string{"id": id},
		Route: &routers.Route{
			Spec: v.doc, Path: o.Path, PathItem: o.item, Method: o.Method, Operation: o.spec,
		},
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true,
		},
	})
	if err != nil {
		return fmt.Errorf("the request was accepted, but the document forbids it: %w", err)
	}
	return nil
}

func unzip(zipped []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, fmt.Errorf("the body is not gzip: %w", err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("the body is not gzip: %w", err)
	}
	return body, nil
}
