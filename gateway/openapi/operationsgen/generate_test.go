package main

import (
	"strings"
	"testing"

	"opsgate/gateway/openapi"
)

// described returns a document with an operation whose answer has a schema, and the schema Item.
func described(parameters, answer, item string) []byte {
	return []byte(`{paths: {/v1/items: {get: {operationId: v1ListItems, x-task: Find items., parameters: [` + parameters + `],
		responses: {"200": {content: {application/json: {schema: ` + answer + `}}}}}}},
		components: {schemas: {Item: {type: object, ` + item + `}, Time: {type: string, format: date-time}}}}`)
}

// tableOf returns the table of a document.
func tableOf(text []byte) ([]byte, error) {
	document, err := openapi.Read(text)
	if err != nil {
		return nil, err
	}
	return generate(document)
}

const (
	item       = "{$ref: '#/components/schemas/Item'}"
	properties = "properties: {id: {type: string}, at: {$ref: '#/components/schemas/Time'}, parts: {type: array, items: {type: object}}}"
	fields     = `Fields: []Field{ {Name: "id"}, {Name: "at", IsTime: true}, {Name: "parts", Items: &Object{Fields: []Field{}, Columns: []string(nil)}}, }`
)

func TestAnswersAreDescribed(t *testing.T) {
	for name, c := range map[string]struct{ parameters, answer, item, want string }{
		"an object": {"", item, properties, `IsList: false, Answer: Object{` + fields + `, Columns: []string{"id", "at"}}`},
		"a list":    {"", "{type: array, items: " + item + "}", properties, `IsList: true, Answer: Object{` + fields + `, Columns: []string{"id", "at"}}`},
		"a page": {"{name: cursor, in: query, schema: {type: string}}", "{type: object, properties: {items: {type: array, items: " + item + "}}}", properties,
			`IsList: true, Answer: Object{` + fields + `, Columns: []string{"id", "at"}}`},
		"a list as an object": {"", "{type: array, items: {type: string}}", properties, `Output: "{\"properties\":{\"items\":{\"items\":{\"type\":\"string\"},\"type\":\"array\"}},\"required\":[\"items\"],`},
		"chosen columns":      {"", item, "x-columns: [at], " + properties, `Columns: []string{"at"}}`},
		"an unknown column":   {"", item, "x-columns: [nothing], " + properties, "x-columns: there is no property nothing"},
		"a bare parameter":    {"{name: page, in: query}", item, properties, "the parameter page has no schema"},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := tableOf(described(c.parameters, c.answer, c.item))
			got := strings.Join(strings.Fields(string(table)), " ")
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestPagesNeedItems(t *testing.T) {
	for _, answer := range []string{item, "{type: object, properties: {items: {type: object}}}"} {
		document, err := openapi.Read(described("{name: page, in: query, schema: {type: integer}}", answer, properties))
		if err != nil {
			t.Fatal(err)
		}
		_, inTable := generate(document)
		_, inClients := describe(document)
		for _, err := range []error{inTable, inClients} {
			if err == nil || err.Error() != "GET /v1/items: its answer is a page without items" {
				t.Errorf("got %v", err)
			}
		}
	}
}

func TestOperationNeedsATask(t *testing.T) {
	document := strings.Replace(string(described("", item, properties)), "x-task: Find items., ", "", 1)
	if _, err := tableOf([]byte(document)); err == nil || !strings.Contains(err.Error(), "it has no x-task") {
		t.Errorf("got %v", err)
	}
}
