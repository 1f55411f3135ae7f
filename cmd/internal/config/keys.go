package config

import (
	"reflect"
	"strings"
)

// A field is a key of one mapping.
type field struct {
	reflect.StructField

	name     string // as it is written
	doc      string
	min, max string // bounds of the value, as it is written; "" for none
}

// fields returns the keys of a mapping, in the order of the struct.
func fields(t reflect.Type) []field {
	list := make([]field, t.NumField())
	for i := range list {
		f := t.Field(i)
		list[i] = field{
			StructField: f,
			name:        f.Tag.Get("yaml"), doc: f.Tag.Get("doc"),
			min: f.Tag.Get("min"), max: f.Tag.Get("max"),
		}
	}
	return list
}

// isMapping tells whether a value of the type is written as a mapping: it is a struct that is not a word.
func isMapping(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[Secret]() {
		return false
	}
	return !reflect.PointerTo(t).Implements(reflect.TypeFor[scalar]())
}

// isList tells whether a value of the type is written as a list.
func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice }

// A Key is something that can be set.
type Key struct {
	Name     string // "rate_limit.store"
	Variable string // "OPSGATE_RATE_LIMIT_STORE"
	Doc      string // what it means, in a sentence
	Min, Max string // bounds, as the value is written; "" for none

	index []int
}

// Keys returns everything that can be set by a file, a variable or an override: scalars and lists. What stands in the items
// of a list is not among them.
func Keys() []Key { return keysOf(reflect.TypeFor[Config](), Key{}) }

func keysOf(t reflect.Type, parent Key) []Key {
	var keys []Key
	for _, f := range fields(t) {
		key := Key{
			Name: join(parent.Name, f.name), Doc: f.doc, Min: f.min, Max: f.max,
			index: append(append([]int(nil), parent.index...), f.Index...),
		}
		if isMapping(f.Type) {
			keys = append(keys, keysOf(f.Type, key)...)
			continue
		}
		key.Variable = variablePrefix + strings.ToUpper(strings.ReplaceAll(key.Name, ".", "_"))
		keys = append(keys, key)
	}
	return keys
}

// join returns the key of a child.
func join(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}
