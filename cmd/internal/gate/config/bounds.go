package config

import (
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// bounds checks every value of a mapping against the bounds of its field.
func (v *validator) bounds(mapping reflect.Value, key string) {
	for _, f := range fields(mapping.Type()) {
		value, childKey := mapping.FieldByIndex(f.Index), join(key, f.name)
		switch {
		case isMapping(f.Type):
			v.bounds(value, childKey)
		case isList(f.Type) && isMapping(f.Type.Elem()):
			for i := range value.Len() {
				v.bounds(value.Index(i), fmt.Sprintf("%s[%d]", childKey, i))
			}
		case isDictionary(f.Type):
			for name, entry := range entries(value) {
				v.bounds(entry, named(childKey, name))
			}
		case f.chars != "":
			if value.Len() > length(f.chars) && utf8.RuneCountInString(value.String()) > length(f.chars) {
				v.refuse(childKey, "must be at most %s characters long, not %d", f.chars, utf8.RuneCountInString(value.String()))
			}
		case value.Interface() == any(Auto):
		case f.min != "":
			if value.Int() < bound(f.Type, f.min) || value.Int() > bound(f.Type, f.max) {
				v.refuse(childKey, "must be %s, not %v", f.rangeText(), value.Interface())
			}
		}
	}
}

// length returns the chars tag as a number.
func length(chars string) int { return int(bound(reflect.TypeFor[int](), chars)) }

// bound returns a bound as a number. It panics for an invalid tag; a test parses all tags.
func bound(t reflect.Type, text string) int64 {
	v := reflect.New(t)
	if s, ok := reflect.TypeAssert[scalar](v); ok {
		if err := s.parse(text); err != nil {
			panic(fmt.Sprintf("config: the bound %q %v", text, err))
		}
		return v.Elem().Int()
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("config: the bound %q: %v", text, err))
	}
	return n
}
