package config

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// A field is a key of one mapping.
type field struct {
	reflect.StructField

	name     string // in the file
	doc      string
	min, max string // bounds in the notation of the value; "" for none
	chars    string // the maximum length of a text; "" for none
	restart  string // why a change needs a restart; "" for the reason of the mapping around it
}

// rangeText returns the bounds as text.
func (f field) rangeText() string {
	text := f.min + " to " + f.max
	if f.Type == reflect.TypeFor[Number]() {
		return autoText + " or " + text
	}
	return text
}

// changeable is the restart tag of a key that needs no restart although the mapping around it does.
const changeable = "-"

// restartReason returns why a change of the field needs a restart, or "". The parent is the reason of the mapping around it.
func (f field) restartReason(parent string) string {
	switch f.restart {
	case "":
		return parent
	case changeable:
		return ""
	default:
		return f.restart
	}
}

// fields returns the keys of a mapping, in the order of the struct.
func fields(t reflect.Type) []field {
	list := make([]field, t.NumField())
	for i := range list {
		f := t.Field(i)
		list[i] = field{
			StructField: f,
			name:        f.Tag.Get("yaml"), doc: f.Tag.Get("doc"),
			min: f.Tag.Get("min"), max: f.Tag.Get("max"), chars: f.Tag.Get("chars"), restart: f.Tag.Get("restart"),
		}
	}
	return list
}

// isMapping returns whether a value of the type is a mapping in YAML: a struct that is not a scalar.
func isMapping(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[Secret]() {
		return false
	}
	return !reflect.PointerTo(t).Implements(reflect.TypeFor[scalar]())
}

// isList returns whether a value of the type is a list in YAML.
func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice }

// isDictionary returns whether a value of the type is a mapping with free names.
func isDictionary(t reflect.Type) bool { return t.Kind() == reflect.Map }

// A Key is a key of the configuration.
type Key struct {
	Name     string // "rate_limit.store"
	Variable string // "OPSGATE_RATE_LIMIT_STORE"
	Doc      string // its description, a sentence
	Min, Max string // bounds in the notation of the value; "" for none
	Restart  string // why a change needs a restart; "" if it does not

	index []int
}

// Keys returns all keys that a file, a variable or an override can set: scalars, lists and mappings with free names, without the keys
// inside list items and under free names.
func Keys() []Key { return keysOf(reflect.TypeFor[Config](), Key{}) }

func keysOf(t reflect.Type, parent Key) []Key {
	var keys []Key
	for _, f := range fields(t) {
		key := Key{
			Name: join(parent.Name, f.name), Doc: f.doc, Min: f.min, Max: f.max, Restart: f.restartReason(parent.Restart),
			index: append(append([]int(nil), parent.index...), f.Index...),
		}
		if isMapping(f.Type) {
			keys = append(keys, keysOf(f.Type, key)...)
			continue
		}
		key.Variable = variable(key.Name)
		keys = append(keys, key)
	}
	return keys
}

// variable returns the environment variable of a key.
func variable(key string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// join returns the key of a child.
func join(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// named returns the key of an entry with a free name: rate_limit.tokens.tok_1, or rate_limit.tokens."a.b" for a name that is ambiguous in
// a key.
func named(mapping, name string) string {
	if !plainName.MatchString(name) {
		name = strconv.Quote(name)
	}
	return join(mapping, name)
}

// parentKey returns the key of the mapping or list that contains a key, or "".
func parentKey(key string) string { return key[:max(strings.LastIndexAny(key, ".["), 0)] }
