package config

import (
	"fmt"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"opsgate/ratelimit"
)

// A dictionary is a mapping with names chosen by its author.
type dictionary interface {
	names() nameForm
}

var (
	_ dictionary = Classes(nil)
	_ dictionary = Overrides(nil)
	_ dictionary = Routes(nil)
)

// A nameForm is the valid names of a dictionary.
type nameForm struct {
	pattern  *regexp.Regexp
	words    string // description of the pattern: "must be …"
	reserved []string
}

var (
	className = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,32}$`)
	visibleID = regexp.MustCompile(`^[\x21-\x7e]{1,128}$`)
)

const (
	classNameWords = "1 to 32 characters of a-z, A-Z, 0-9, ., _ and -"
	visibleIDWords = "1 to 128 visible ASCII characters"
)

// names reserves the words that metrics use for other assignments than classes.
func (Classes) names() nameForm {
	reserved := []string{ratelimit.ClassDefault, ratelimit.ClassTeam, ratelimit.ClassToken}
	return nameForm{pattern: className, words: classNameWords, reserved: reserved}
}

func (Overrides) names() nameForm { return nameForm{pattern: visibleID, words: visibleIDWords} }

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

// dictionary decodes a dictionary, which replaces the previous one. An empty one changes nothing.
func (d *decoder) dictionary(v reflect.Value, key string, n *yaml.Node) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.refuse(n, key, "must be a mapping of names, not a %s", kindName(n))
		return
	}
	form, result := namesOf(v.Type()), reflect.MakeMap(v.Type())
	d.pairs(n, func(name string) string { return named(key, name) }, func(name, child *yaml.Node, childKey string) {
		if tag := name.ShortTag(); name.Kind != yaml.ScalarNode || tag == "!!merge" || tag == "!!null" {
			d.refuse(name, childKey, "has no name; quote a name that YAML would read as another type")
			return
		}
		if err := form.check(name.Value); err != nil {
			d.refuse(name, childKey, "%v", err)
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(item, childKey, child)
		d.origins[childKey] = d.at(name)
		result.SetMapIndex(reflect.ValueOf(name.Value), item)
	})
	v.Set(result)
}
