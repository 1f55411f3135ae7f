package config

import (
	"fmt"
	"iter"
	"reflect"
	"regexp"
	"slices"
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
	restart  string // why a change needs a restart; "" for the reason of the enclosing mapping

	perGateway bool // may differ between gateways with the same configuration, such as two on one machine
}

// rangeText returns the bounds as text.
func (f field) rangeText() string {
	text := f.min + " to " + f.max
	if f.Type == reflect.TypeFor[Number]() {
		return autoText + " or " + text
	}
	return text
}

// changeable is the restart tag of a key that needs no restart, in a mapping that needs a restart.
const changeable = "-"

// restartReason returns why a change of the field needs a restart, or "". parent is the reason of
// the enclosing mapping.
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
			perGateway: f.Tag.Get("of") == "gateway" || f.Type == reflect.TypeFor[File](),
		}
	}
	return list
}

// isMapping reports whether a value of the type is a mapping in YAML: a struct that is not a
// scalar.
func isMapping(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[Secret]() {
		return false
	}
	return !reflect.PointerTo(t).Implements(reflect.TypeFor[scalar]())
}

// isList reports whether a value of the type is a list in YAML.
func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice }

// isDictionary reports whether a value of the type is a mapping with free names.
func isDictionary(t reflect.Type) bool { return t.Kind() == reflect.Map }

// A dictionary is a mapping with names that the author of the file chooses.
type dictionary interface {
	names() nameForm
}

var (
	_ dictionary = Classes(nil)
	_ dictionary = Overrides(nil)
	_ dictionary = Routes(nil)
)

// A nameForm defines the valid names of a dictionary.
type nameForm struct {
	pattern  *regexp.Regexp
	words    string // description of the pattern: "must be …"
	reserved []string
}

func (f nameForm) check(name string) error {
	switch {
	case !f.pattern.MatchString(name):
		return fmt.Errorf("has a name that is not %s", f.words)
	case slices.Contains(f.reserved, name):
		return fmt.Errorf("has a reserved name: %s", strings.Join(f.reserved, ", "))
	}
	return nil
}

// namesOf returns the valid names of a dictionary.
func namesOf(t reflect.Type) nameForm {
	d, ok := reflect.TypeAssert[dictionary](reflect.Zero(t))
	if !ok {
		panic(fmt.Sprintf("config: %s has no method names", t))
	}
	return d.names()
}

// entries returns the entries of a dictionary in the order of their names.
func entries(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			if !yield(name.String(), v.MapIndex(name)) {
				return
			}
		}
	}
}

// A Key is a key of the configuration.
type Key struct {
	Name     string // "rate_limit.store"
	Variable string // "OPSGATE_RATE_LIMIT_STORE"
	Doc      string // its description, a sentence
	Min, Max string // bounds in the notation of the value; "" for none
	Restart  string // why a change needs a restart; "" if it does not
	Secret   bool

	index []int
}

// Keys returns all keys that a file, a variable or a flag can set: scalars, lists and dictionaries,
// without the keys inside list items and dictionary entries.
func Keys() []Key { return keysOf(reflect.TypeFor[Config](), Key{}) }

func keysOf(t reflect.Type, parent Key) []Key {
	var keys []Key
	for _, f := range fields(t) {
		key := Key{
			Name: join(parent.Name, f.name), Doc: f.doc, Min: f.min, Max: f.max, Restart: f.restartReason(parent.Restart),
			Secret: f.Type == reflect.TypeFor[Secret](),
			index:  append(append([]int(nil), parent.index...), f.Index...),
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

// isKey reports whether all contains a key, or keys under it.
func isKey(all []Key, key string) bool {
	return slices.ContainsFunc(all, func(k Key) bool { return k.Name == key || strings.HasPrefix(k.Name, key+".") })
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

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	likeToken = regexp.MustCompile(`live_[0-9A-Za-z]{8}`) // also a token with another prefix, mistyped or truncated
)

// entryKey returns the key of an entry of a dictionary: rate_limit.classes.partner, or
// rate_limit.classes."a.b" for a name that is ambiguous in a key. A name that looks like a token is
// hidden, because keys are printed.
func entryKey(mapping, name string) string {
	switch {
	case likeToken.MatchString(name):
		name = hidden
	case !plainName.MatchString(name):
		name = strconv.Quote(name)
	}
	return join(mapping, name)
}

// parentKey returns the key of the mapping or list that contains a key, or "".
func parentKey(key string) string { return key[:max(strings.LastIndexAny(key, ".["), 0)] }

// A leaf is a value without values under it.
type leaf struct {
	field // of the value, or of the list that contains it

	key   string
	value reflect.Value
}

// String returns the value as in a file, or a placeholder for a secret.
func (l leaf) String() string {
	switch {
	case isList(l.value.Type()):
		return "[]"
	case isDictionary(l.value.Type()):
		return "{}"
	}
	return fmt.Sprint(l.value.Interface())
}

func (l leaf) isSecret() bool { return l.value.Type() == reflect.TypeFor[Secret]() }

// revealed returns the value like String, but a secret in plain text, for comparison.
func (l leaf) revealed() string {
	if secret, ok := reflect.TypeAssert[Secret](l.value); ok {
		return secret.Reveal()
	}
	return l.String()
}

// leaves returns the values under a value in the order of the keys; entries of a dictionary are
// sorted by name. The keys of the leaves are relative to the value.
func leaves(v reflect.Value) iter.Seq[leaf] {
	return func(yield func(leaf) bool) { walk(leaf{value: v}, yield) }
}

// walk yields the leaves under a value until yield returns false.
func walk(l leaf, yield func(leaf) bool) bool {
	switch t := l.value.Type(); {
	case isMapping(t):
		for _, f := range fields(t) {
			if !walk(leaf{f, join(l.key, f.name), l.value.FieldByIndex(f.Index)}, yield) {
				return false
			}
		}
		return true
	case isList(t) && l.value.Len() > 0:
		for i := range l.value.Len() {
			if !walk(leaf{l.field, fmt.Sprintf("%s[%d]", l.key, i), l.value.Index(i)}, yield) {
				return false
			}
		}
		return true
	case isDictionary(t) && l.value.Len() > 0:
		for name, entry := range entries(l.value) {
			if !walk(leaf{l.field, entryKey(l.key, name), entry}, yield) {
				return false
			}
		}
		return true
	}
	return yield(l)
}

// equalValues reports whether two values of a key are equal, including secrets.
func equalValues(a, b reflect.Value) bool {
	text := func(v reflect.Value) (texts []string) {
		for leaf := range leaves(v) {
			texts = append(texts, leaf.key, leaf.revealed())
		}
		return texts
	}
	return slices.Equal(text(a), text(b))
}
