package openapitest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// sunsetOf returns the x-sunset of a deprecated operation as an HTTP date, or "" for an operation
// that is not deprecated.
func sunsetOf(spec *openapi3.Operation) (string, error) {
	date, has := spec.Extensions["x-sunset"].(string)
	if spec.Deprecated != has {
		return "", errors.New("deprecated and x-sunset need each other")
	}
	if !has {
		return "", nil
	}
	sunset, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return "", fmt.Errorf("x-sunset: %w", err)
	}
	return sunset.Format(http.TimeFormat), nil
}

// headers returns the headers of a response of the operation. Responses of a deprecated one also
// have Deprecation (RFC 9745) and Sunset (RFC 8594), which the overview describes.
func (o *operation) headers(described openapi3.Headers) openapi3.Headers {
	if o.Sunset == "" {
		return described
	}
	all := maps.Clone(described)
	if all == nil {
		all = openapi3.Headers{}
	}
	all["Deprecation"] = requiredHeader(&openapi3.Schema{Type: &openapi3.Types{"string"}, Pattern: `^@\d+$`})
	all["Sunset"] = requiredHeader(&openapi3.Schema{Type: &openapi3.Types{"string"}, Enum: []any{o.Sunset}})
	return all
}

func requiredHeader(schema *openapi3.Schema) *openapi3.HeaderRef {
	return &openapi3.HeaderRef{Value: &openapi3.Header{Parameter: openapi3.Parameter{Required: true,
		Schema: schema.NewRef()}}}
}
