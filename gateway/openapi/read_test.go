package openapi

import (
	"fmt"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

const described = `
paths:
  /v1/z/{id}:
    parameters: [{$ref: '#/components/parameters/Id'}]
    post:
      x-required-scope: none
      requestBody:
        content: {application/json: {examples: {first: {value: {b: 1, a: [true, null]}}}}}
    get:
      operationId: v1Get
      x-required-scope: x:read
      parameters: [{name: limit, in: query, schema: {type: integer, minimum: 1, default: 50}}]
      responses: {"200": {$ref: '#/components/responses/Item'}, "404": {description: None.}}
  /v1/a:
    get: {}
components:
  parameters: {Id: {name: id, in: path, example: 7}}
  responses: {Item: {content: {application/json: {schema: {$ref: '#/components/schemas/Item', description: Here.}}}}}
  schemas:
    Item:
      type: [object, 'null']
      description: An item.
      additionalProperties: false
      required: [z]
      properties: {z: {$ref: '#/components/schemas/Text'}, a: {type: array, items: {$ref: '#/components/schemas/Text'}}}
    Text: {type: string, enum: [b, a, null]}
`

func TestReadKeepsTheOrderAndReplacesReferences(t *testing.T) {
	document, err := Read([]byte(described))
	testkit.Must(t, err)
	var got strings.Builder
	for _, o := range document.Operations {
		fmt.Fprintf(&got, "\n%s %s %s %q:", o.Method, o.Path, o.ID, o.Scope)
		for _, p := range o.Parameters {
			fmt.Fprintf(&got, " %s %s %q %v from %q, default %q;", p.In, p.Name, p.Example, p.Schema.Type, p.Schema.Minimum, p.Schema.Default)
		}
		for _, e := range o.RequestBody.Content.JSON.Examples {
			fmt.Fprintf(&got, " %s %s;", e.Name, e.Value.Value)
		}
		for _, r := range o.Responses {
			fmt.Fprintf(&got, " %s", r.Name)
		}
	}
	const want = `
GET /v1/z/{id} v1Get "x:read": path id "7" [] from "", default ""; query limit "" [integer] from "1", default "50"; 200 404
POST /v1/z/{id}  "": path id "7" [] from "", default ""; first {"b":1,"a":[true,null]};
GET /v1/a  "":`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestSchemaHasTheNameOfItsComponent(t *testing.T) {
	document, err := Read([]byte(described))
	testkit.Must(t, err)
	item := document.Operations[0].Answer()
	z, a := item.Properties[0], item.Properties[1]
	got := fmt.Sprintln(item.Name, item.Description, item.Type, item.AdditionalProperties.Never, item.Requires("z"), item.Requires("a"),
		z.Name, z.Value.Name, z.Value.Enum, a.Name, a.Value.Is("array"), a.Value.Items.Name)
	if want := "Item Here. [object null] true true false z Text [b a] a true Text\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if component := document.Components.Schemas.Get("Item"); component.Name != "" || component.Description != "An item." {
		t.Errorf("the component has the name %q and the description %q", component.Name, component.Description)
	}
	if document.Components.Schemas.Get("Nothing") != nil {
		t.Error("there is a component Nothing")
	}
	var whole map[string]any
	testkit.Must(t, item.Decode(&whole))
	const text = "map[enum:[b a <nil>] type:string]"
	if got := fmt.Sprint(whole["properties"]); got != "map[a:map[items:"+text+" type:array] z:"+text+"]" {
		t.Errorf("the properties are %s", got)
	}
}

func TestInvalidDocumentsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"paths: [":                                         "reading the OpenAPI document",
		"paths: {/v1/a: {get: {tags: {}}}}":                "reading the OpenAPI document",
		"tags: {$ref: '#/components/schemas/Nothing'}":     "there is no #/components/schemas/Nothing",
		"paths: {/v1/a: {get: {$ref: '#/components/No'}}}": "there is no #/components/No",
	} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
