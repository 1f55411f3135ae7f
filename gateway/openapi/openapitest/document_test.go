package openapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"opsgate/authn"
	"opsgate/gateway/openapi"
	"opsgate/internal/testkit"
)

// published loads the document as it is served.
func published(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapi.JSON())
	testkit.Must(t, err)
	return doc
}

func TestDocumentIsValidOpenAPI31(t *testing.T) {
	doc := published(t)
	if doc.OpenAPIMajorMinor() != "3.1" || doc.Info.Version != "1.0.0" {
		t.Errorf("OpenAPI %s, version %s", doc.OpenAPI, doc.Info.Version)
	}
	// This also validates examples.
	if err := doc.Validate(context.Background(), openapi3.EnableMultiError(), openapi3.EnableSchemaFormatValidation()); err != nil {
		t.Error(err)
	}
}

func TestYAMLAndJSONAreTheSameDocument(t *testing.T) {
	fromYAML, err := openapi3.NewLoader().LoadFromData(openapi.YAML())
	testkit.Must(t, err)
	a, err := fromYAML.MarshalJSON()
	testkit.Must(t, err)
	b, err := published(t).MarshalJSON()
	testkit.Must(t, err)
	if !bytes.Equal(a, b) {
		t.Error("openapi.yaml and openapi.json differ")
	}
}

func TestExamplesMatchClosedSchemas(t *testing.T) {
	v := New(t)
	checked := 0
	check := func(where string, content openapi3.Content) {
		for _, media := range content {
			if len(media.Examples) == 0 {
				t.Errorf("%s: no example", where)
			}
			for name, example := range media.Examples {
				checked++
				if err := media.Schema.Value.VisitJSON(example.Value.Value); err != nil {
					t.Errorf("%s, example %s: %v", where, name, err)
				}
			}
		}
	}
	for _, o := range v.operations {
		for status, response := range o.spec.Responses.Map() {
			check(o.ID+" "+status, response.Value.Content)
		}
		if o.spec.RequestBody != nil {
			check(o.ID+" request", o.spec.RequestBody.Value.Content)
		}
		for _, p := range slices.Concat(o.item.Parameters, o.spec.Parameters) {
			if p.Value.Example == nil {
				t.Errorf("%s: no example of %s", o.ID, p.Value.Name)
			}
			for _, example := range append(p.Value.Schema.Value.Examples, p.Value.Example) {
				if err := p.Value.Schema.Value.VisitJSON(example); err != nil {
					t.Errorf("%s, example of parameter %s: %v", o.ID, p.Value.Name, err)
				}
			}
		}
	}
	for name, response := range v.doc.Components.Responses {
		check("response "+name, response.Value.Content)
	}
	for name, header := range v.doc.Components.Headers {
		if err := checkHeader(fmt.Sprint(header.Value.Example), header.Value.Schema.Value); err != nil {
			t.Errorf("example of header %s: %v", name, err)
		}
	}
	for name, schema := range v.doc.Components.Schemas {
		for _, example := range schema.Value.Examples {
			if err := schema.Value.VisitJSON(example); err != nil {
				t.Errorf("example of schema %s: %v", name, err)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d examples were checked", checked)
	}
}

// knownValues returns the values of an open set.
func knownValues(schema *openapi3.Schema) []any {
	values, _ := schema.Extensions["x-known-values"].([]any)
	return values
}

func TestEveryOperationDescribesTheStatusesAndHeadersOfTheContract(t *testing.T) {
	const ( // headers; one with a ? may be absent
		limited = "Cache-Control RateLimit RateLimit-Policy X-Request-Id "
		refused = limited + "Link "
		early   = "Cache-Control Link X-Request-Id "      // precedes the decision about the limits
		failed  = early + "RateLimit? RateLimit-Policy? " // may precede it
	)
	for _, o := range New(t).operations {
		want := map[string]string{
			"200": limited + "Ignored-Parameters? Vary ", "401": early + "WWW-Authenticate", "403": refused, "429": refused + "Retry-After",
			"431": early, "500": failed, "503": failed + "Retry-After", "504": failed,
		}
		if o.Method == http.MethodGet {
			want["200"] += "ETag "
			want["304"] = limited + "ETag Vary"
		} else {
			want["200"] += "Idempotent-Replayed? "
			want["408"], want["409"], want["413"], want["415"] = refused, refused+"Retry-After", refused, refused+"Accept-Encoding?"
		}
		if slices.Contains(o.Fields, "cursor") {
			want["200"] += "Cursor-Status? Link?"
		}
		if len(o.Fields) > 0 {
			want["422"] = refused
		}
		if strings.Contains(o.Path, "{id}") {
			want["404"] = refused
		}
		if o.Scope != "" { // calls a service
			want["403"], want["501"] = refused+"WWW-Authenticate?", failed
		}
		for status, headers := range want {
			want[status] = strings.Join(slices.Sorted(strings.FieldsSeq(headers)), " ")
		}
		got := make(map[string]string)
		for status, response := range o.spec.Responses.Map() {
			var headers []string
			for name, header := range response.Value.Headers {
				if !header.Value.Required {
					name += "?"
				}
				headers = append(headers, name)
			}
			slices.Sort(headers)
			got[status] = strings.Join(headers, " ")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s describes other responses than the contract:\n%s", o.ID, diff)
		}
	}
}

func TestParametersHaveTheBoundsOfTheContract(t *testing.T) {
	number := func(low, high, def float64) string { return fmt.Sprint(low, high, def) }
	bounds := map[string]string{
		"limit": number(1, 100, 50), "pageSize": number(1, 100, 20), "page": number(1, 2147483647, 1),
	}
	seen := map[string]bool{}
	for _, o := range New(t).operations {
		for _, p := range o.spec.Parameters {
			want, bounded := bounds[p.Value.Name]
			if !bounded {
				continue
			}
			seen[p.Value.Name] = true
			s := p.Value.Schema.Value
			if got := fmt.Sprint(*s.Min, *s.Max, s.Default); got != want {
				t.Errorf("%s: %s has %s, want %s", o.ID, p.Value.Name, got, want)
			}
		}
		if has, want := o.spec.Parameters.GetByInAndName("header", "Idempotency-Key") != nil, o.Method == http.MethodPost; has != want {
			t.Errorf("%s: Idempotency-Key described: %v", o.ID, has)
		}
	}
	if len(seen) != len(bounds) {
		t.Errorf("only bounds of %v were checked", seen)
	}
}

func TestOperationsDescribeTheirScope(t *testing.T) {
	var existing, described []string
	for _, scope := range authn.AllScopes() {
		existing = append(existing, string(scope))
	}
	for _, scope := range knownValues(published(t).Components.Schemas["Scope"].Value) {
		described = append(described, fmt.Sprint(scope))
	}
	if slices.Sort(described); !slices.Equal(described, existing) {
		t.Errorf("the schema Scope lists %v, authn has %v", described, existing)
	}
	for _, o := range New(t).operations {
		sentence := "Needs the scope `" + o.Scope + "`."
		if o.ID == "v1Me" {
			sentence = "Needs no scope: any valid token is accepted."
		}
		if !strings.Contains(o.spec.Description, sentence) {
			t.Errorf("%s: the description lacks %q", o.ID, sentence)
		}
	}
}

// A token that may call an operation must still be able to after an upgrade. The check of
// compatibility ignores extensions.
func TestOperationsKeepTheScopeOfTheLastRelease(t *testing.T) {
	released, err := openapi3.NewLoader().LoadFromFile("../released.yaml")
	testkit.Must(t, err)
	checked := 0
	for _, o := range New(t).operations {
		item := released.Paths.Value(o.Path)
		if item == nil || item.GetOperation(o.Method) == nil {
			continue // a new operation
		}
		checked++
		before, now := item.GetOperation(o.Method).Extensions["x-required-scope"], o.spec.Extensions["x-required-scope"]
		if now != before && now != noScope {
			t.Errorf("%s needs the scope %v, and %v in the last release", o.ID, now, before)
		}
	}
	if checked == 0 {
		t.Error("no operation was checked")
	}
}

// Clients must accept new fields in responses; the gateway refuses unknown fields in requests.
func TestOnlyRequestBodiesArePublishedClosed(t *testing.T) {
	for name, schema := range published(t).Components.Schemas {
		closed := schema.Value.AdditionalProperties.Has != nil && !*schema.Value.AdditionalProperties.Has
		if isRequest(name) != closed {
			t.Errorf("schema %s closed: %v", name, closed)
		}
	}
}

func TestEveryPropertyOfAResponseIsRequired(t *testing.T) {
	for name, schema := range New(t).doc.Components.Schemas {
		if isRequest(name) {
			continue
		}
		for property := range schema.Value.Properties {
			if name == "ForbiddenDetails" { // a 403 has one of them
				continue
			}
			if !slices.Contains(schema.Value.Required, property) {
				t.Errorf("%s.%s is not required", name, property)
			}
		}
	}
}

func TestEveryElementHasADescription(t *testing.T) {
	doc := published(t)
	check := func(what, description string) {
		if strings.TrimSpace(description) == "" {
			t.Errorf("%s has no description", what)
		}
	}
	for _, tag := range doc.Tags {
		check("tag "+tag.Name, tag.Description)
	}
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			check(method+" "+path, o.Description)
			check("summary of "+method+" "+path, o.Summary)
			for _, p := range slices.Concat(item.Parameters, o.Parameters) {
				check(o.OperationID+" "+p.Value.Name, p.Value.Description)
			}
			for status, r := range o.Responses.Map() {
				check(o.OperationID+" "+status, *r.Value.Description)
				for name, h := range r.Value.Headers {
					check(name, h.Value.Description)
				}
			}
		}
	}
	for name, schema := range doc.Components.Schemas {
		check("schema "+name, schema.Value.Description)
		describedProperties(name, schema.Value, check)
	}
}

func describedProperties(name string, schema *openapi3.Schema, check func(what, description string)) {
	for property, s := range schema.Properties {
		check(name+"."+property, s.Value.Description)
		describedProperties(name+"."+property, s.Value, check)
	}
}

// A generator makes types of the names of schemas, and others beside them: in Go, NewIncident makes
// an Incident. Some make constants of the values of enums alone.
func TestNamesOfSchemasDoNotCollide(t *testing.T) {
	seen := map[string]string{}
	for name, schema := range published(t).Components.Schemas {
		made := []string{name, "New" + name, "New" + name + "WithDefaults", "Nullable" + name, name + "Dict", name + "Enum"}
		constants, renamed := schema.Value.Extensions["x-enum-varnames"].([]any)
		if !renamed {
			constants = schema.Value.Enum
		}
		for _, constant := range constants {
			made = append(made, "constant "+fmt.Sprint(constant))
		}
		for _, made := range made {
			key := strings.ToLower(made)
			if other, ok := seen[key]; ok {
				t.Errorf("generators make %s of %s and of %s", made, name, other)
			}
			seen[key] = name
		}
	}
}

// The classes that generators make of a tag have the operations of the API or webhooks: one of both
// would replace the other.
func TestWebhooksHaveATagOfTheirOwn(t *testing.T) {
	var tags []string
	for _, item := range published(t).Webhooks {
		for _, o := range item.Operations() {
			tags = append(tags, o.Tags...)
		}
	}
	for _, o := range New(t).operations {
		for _, tag := range o.spec.Tags {
			if slices.Contains(tags, tag) {
				t.Errorf("%s and webhooks have the tag %s", o.ID, tag)
			}
		}
	}
	if len(tags) < 2 {
		t.Errorf("webhooks have the tags %q", tags)
	}
}

// The validator ignores other keywords, so that a schema with one would accept too much. A pattern
// beside a format does not compile, or cannot be imported, in what some generators write.
func TestSchemasUseOnlyEnforcedKeywords(t *testing.T) {
	enforced := []string{
		"additionalProperties", "enum", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minLength", "minProperties",
		"minimum", "pattern", "properties", "required", "type", "uniqueItems",
		"default", "description", "examples", "format", "$ref", "x-columns", "x-enum-varnames", "x-known-values", // these restrict nothing
	}
	var document map[string]any
	testkit.Must(t, json.Unmarshal(openapi.JSON(), &document))
	schemas := 0
	var schema func(where string, s map[string]any)
	schema = func(where string, s map[string]any) {
		schemas++
		for keyword, value := range s {
			if !slices.Contains(enforced, keyword) || keyword == "pattern" && s["format"] != nil {
				t.Errorf("%s uses %s", where, keyword)
			}
			switch value := value.(type) {
			case map[string]any:
				if keyword == "properties" {
					for name, property := range value {
						schema(where+"."+name, property.(map[string]any))
					}
					continue
				}
				schema(where+" "+keyword, value)
			case []any:
				for _, part := range value {
					if part, ok := part.(map[string]any); ok && keyword != "examples" {
						schema(where+" "+keyword, part)
					}
				}
			}
		}
	}
	var walk func(where string, node any)
	walk = func(where string, node any) {
		list, _ := node.([]any)
		for _, element := range list {
			walk(where, element)
		}
		m, _ := node.(map[string]any)
		for key, value := range m {
			if s, ok := value.(map[string]any); ok && (key == "schema" || strings.HasSuffix(where, "/components/schemas")) {
				schema(where+"/"+key, s)
				continue
			}
			if key != "examples" {
				walk(where+"/"+key, value)
			}
		}
	}
	walk("", document)
	if schemas < 200 {
		t.Errorf("only %d schemas were checked", schemas)
	}
}
