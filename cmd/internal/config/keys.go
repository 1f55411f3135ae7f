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

	name     string // as it is written
	doc      string
	min, max string // bounds of the value, as it is written; "" for none
	chars    string // the greatest length of a text; "" for any
	restart  string // why a change waits for a restart; "" where the mapping around it says
	was      string // the name it had, which is still taken; "" for none
}

// changeable is the restart tag of what can change while running though the mapping around it cannot.
const changeable = "-"

// restartUnder returns why a change waits for a restart, or "", where the mapping around the field has such a reason.
func (f field) restartUnder(reason string) string {
	switch f.restart {
	case "":
		return reason
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
			was: f.Tag.Get("was"),
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

// isDictionary tells whether a value of the type is written as a mapping whose names are free.
func isDictionary(t reflect.Type) bool { return t.Kind() == reflect.Map }

// A Key is something that can be set.
type Key struct {
	Name     string // "rate_limit.store"
	Variable string // "OPSGATE_RATE_LIMIT_STORE"
	Doc      string // what it means, in a sentence
	Min, Max string // bounds, as the value is written; "" for none
	Restart  string // why a change waits for a restart; "" if it does not

	index  []int
	former []string // names that it had, which are still taken
}

// Keys returns everything that can be set by a file, a variable or an override: scalars, lists and mappings with free names.
// What stands in the items of a list, or under a free name, is not among them.
func Keys() []Key { return keysOf(reflect.TypeFor[Config](), Key{}) }

func keysOf(t reflect.Type, parent Key) []Key {
	var keys []Key
	for _, f := range fields(t) {
		key := Key{
			Name: join(parent.Name, f.name), Doc: f.doc, Min: f.min, Max: f.max, Restart: f.restartUnder(parent.Restart),
			index: append(append([]int(nil), parent.index...), f.Index...), former: former(parent, f),
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

// former returns the names that a key had, its own having changed or that of a mapping around it.
func former(parent Key, f field) (names []string) {
	for _, around := range parent.former {
		names = append(names, join(around, f.name))
	}
	if f.was == "" {
		return names
	}
	for _, around := range append([]string{parent.Name}, parent.former...) {
		names = append(names, join(around, f.was))
	}
	return names
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

// Named returns the key of what a mapping has under a free name: rate_limit.tokens.tok_1, and rate_limit.tokens."a.b" where the
// name could be taken for several keys.
func Named(mapping, name string) string {
	if !plainName.MatchString(name) {
		name = strconv.Quote(name)
	}
	return join(mapping, name)
}

// around returns the key that a key stands in, or "".
func around(key string) string { return key[:max(strings.LastIndexAny(key, ".["), 0)] }
