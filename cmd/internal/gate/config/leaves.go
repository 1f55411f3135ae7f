package config

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
)

// A leaf is a value without values under it.
type leaf struct {
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

// revealed is String with the secret itself, for comparison.
func (l leaf) revealed() string {
	if secret, ok := reflect.TypeAssert[Secret](l.value); ok {
		return secret.Reveal()
	}
	return l.String()
}

// leaves returns the values under a value in the order of the keys, and of the names in a dictionary. Their keys are relative to the value.
func leaves(v reflect.Value) iter.Seq[leaf] {
	return func(yield func(leaf) bool) { walk(v, "", yield) }
}

// walk yields the leaves under a value until yield returns false.
func walk(v reflect.Value, key string, yield func(leaf) bool) bool {
	switch t := v.Type(); {
	case isMapping(t):
		for _, f := range fields(t) {
			if !walk(v.FieldByIndex(f.Index), join(key, f.name), yield) {
				return false
			}
		}
		return true
	case isList(t) && v.Len() > 0:
		for i := range v.Len() {
			if !walk(v.Index(i), fmt.Sprintf("%s[%d]", key, i), yield) {
				return false
			}
		}
		return true
	case isDictionary(t) && v.Len() > 0:
		for name, entry := range entries(v) {
			if !walk(entry, named(key, name), yield) {
				return false
			}
		}
		return true
	}
	return yield(leaf{key, v})
}

// same returns whether two values of a key are equal, including secrets.
func same(a, b reflect.Value) bool {
	text := func(v reflect.Value) (texts []string) {
		for leaf := range leaves(v) {
			texts = append(texts, leaf.key, leaf.revealed())
		}
		return texts
	}
	return slices.Equal(text(a), text(b))
}
