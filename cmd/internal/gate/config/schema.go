package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/invopop/jsonschema"
)

// Schema returns the JSON Schema of the file, for editors and pipelines. It has the rules of single
// keys; [Load] also checks the relations between keys.
func Schema() ([]byte, error) {
	schema := schemaOf(Config{}, reflect.ValueOf(Default()))
	schema.Title = "Configuration of opsgate"
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(text, '\n'), nil
}

// schemaOf returns the schema of a mapping with these defaults.
func schemaOf(mapping any, defaults reflect.Value) *jsonschema.Schema {
	reflector := jsonschema.Reflector{
		Anonymous:                  true,
		DoNotReference:             true,
		ExpandedStruct:             true,
		FieldNameTag:               "yaml",
		RequiredFromJSONSchemaTags: true, // a variable may set any key
		Mapper:                     scalarSchema,
	}
	schema := reflector.Reflect(mapping)
	describe(schema, reflect.TypeOf(mapping), defaults, "")
	return schema
}

// scalarSchema returns the schema of a scalar type, or nil for strings, numbers and booleans.
func scalarSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`}
	case reflect.TypeFor[Bytes]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Type: "integer"},
			{Type: "string", Pattern: `^[0-9]+(KiB|MiB|GiB)?$`},
		}}
	case reflect.TypeFor[Number]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Type: "integer"},
			{Type: "string", Enum: []any{autoText}},
		}}
	case reflect.TypeFor[Percent]():
		return &jsonschema.Schema{Type: "string", Pattern: percentage.String()}
	case reflect.TypeFor[Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[Network]():
		return &jsonschema.Schema{Type: "string", Pattern: `^[0-9a-fA-F.:]+/[0-9]+$`}
	case reflect.TypeFor[Secret]():
		return &jsonschema.Schema{Type: "string", Pattern: `^($|\$\{.+\}$)`}
	}
	words, ok := reflect.TypeAssert[choice](reflect.Zero(t))
	if !ok {
		return nil
	}
	return &jsonschema.Schema{Type: "string", Enum: asAny(words.choices())}
}

// describe adds the tags and the defaults to the schema of a mapping. restart is the reason why
// changes under the mapping need a restart, or "". Items of lists and entries of dictionaries have
// no defaults.
func describe(schema *jsonschema.Schema, t reflect.Type, defaults reflect.Value, restart string) {
	for _, f := range fields(t) {
		property := schema.Properties.Value(f.name)
		var byDefault reflect.Value
		if defaults.IsValid() {
			byDefault = defaults.FieldByIndex(f.Index)
		}
		describeField(property, f, byDefault, f.restartReason(restart))
	}
}

// describeField is describe for one key.
func describeField(property *jsonschema.Schema, f field, byDefault reflect.Value, reason string) {
	property.Description = sentence(f, reason)
	switch {
	case isMapping(f.Type):
		describe(property, f.Type, byDefault, reason)
		return
	case isList(f.Type) && isMapping(f.Type.Elem()):
		describe(property.Items, f.Type.Elem(), reflect.Value{}, reason)
	case isDictionary(f.Type):
		form := namesOf(f.Type)
		property.PropertyNames = &jsonschema.Schema{Pattern: form.pattern.String()}
		if len(form.reserved) > 0 {
			property.PropertyNames.Not = &jsonschema.Schema{Enum: asAny(form.reserved)}
		}
		describe(property.AdditionalProperties, f.Type.Elem(), reflect.Value{}, reason)
	case f.chars != "":
		property.MaxLength = new(uint64(length(f.chars)))
	case property.Type == "integer":
		setRange(property, f)
	case property.OneOf != nil: // a number or a text
		setRange(property.OneOf[0], f)
	}
	if byDefault.IsValid() && (!byDefault.IsZero() || f.Type.Kind() == reflect.Bool) {
		property.Default = plain(byDefault)
	}
}

// setRange adds the bounds of a field to the schema of a number.
func setRange(number *jsonschema.Schema, f field) {
	number.Minimum = json.Number(strconv.FormatInt(bound(f.Type, f.min), 10))
	number.Maximum = json.Number(strconv.FormatInt(bound(f.Type, f.max), 10))
}

func asAny(words []string) []any {
	list := make([]any, len(words))
	for i, word := range words {
		list[i] = word
	}
	return list
}

// sentence returns a field's description with its bounds and the restart that a change needs.
func sentence(f field, restart string) string {
	text := f.doc
	if f.min != "" {
		text += fmt.Sprintf(" From %s to %s.", f.min, f.max)
	}
	if restart != "" {
		text += fmt.Sprintf(" A change needs a restart: %s.", restart)
	}
	return text
}

// plain returns a value as in a file: strings, numbers, booleans, and lists and mappings of them.
func plain(v reflect.Value) any {
	switch {
	case isMapping(v.Type()):
		mapping := make(map[string]any)
		for _, f := range fields(v.Type()) {
			mapping[f.name] = plain(v.FieldByIndex(f.Index))
		}
		return mapping
	case isList(v.Type()):
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	}
	if text, ok := reflect.TypeAssert[fmt.Stringer](v); ok {
		return text.String()
	}
	return v.Interface()
}
