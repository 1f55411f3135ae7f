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

// A dictionary is a mapping whose author chooses the names in it.
type dictionary interface {
	names() nameForm
}

var (
	_ dictionary = Classes(nil)
	_ dictionary = Overrides(nil)
	_ dictionary = Routes(nil)
)

// A nameForm is what names may be.
type nameForm struct {
	pattern *regexp.Regexp
	words   string   // the same in words, which follow "is"
	taken   []string // these are no names
}

var (
	className = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,32}$`)
	visibleID = regexp.MustCompile(`^[\x21-\x7e]{1,128}$`)
)

const (
	classNameWords = "1 to 32 characters of a-z, A-Z, 0-9, ., _ and -"
	visibleIDWords = "1 to 128 visible ASCII characters"
)

// names keeps the words apart that stand for no class where classes are named, as in metrics.
func (Classes) names() nameForm {
	taken := []string{ratelimit.ClassDefault, ratelimit.ClassTeam, ratelimit.ClassToken}
	return nameForm{pattern: className, words: classNameWords, taken: taken}
}

func (Overrides) names() nameForm { return nameForm{pattern: visibleID, words: visibleIDWords} }

func (f nameForm) check(name string) error {
	switch {
	case !f.pattern.MatchString(name):
		return fmt.Errorf("has a name that is not %s", f.words)
	case slices.Contains(f.taken, name):
		return fmt.Errorf("has a name that means something else already: %s", strings.Join(f.taken, ", "))
	}
	return nil
}

// namesOf returns what the names in a dictionary may be.
func namesOf(t reflect.Type) nameForm {
	d, ok := reflect.TypeAssert[dictionary](reflect.Zero(t))
	if !ok {
		panic(fmt.Sprintf("config: %s does not say what its names may be", t)) // a new type in this package
	}
	return d.names()
}

// entries returns what a dictionary holds, by name.
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

// dictionary decodes a dictionary in the place of the one that was there. One without a value changes nothing, as a mapping.
func (d *decoder) dictionary(v reflect.Value, key string, n *yaml.Node) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.refuse(n, key, "is a mapping of names, not a %s", kindName(n))
		return
	}
	form, made := namesOf(v.Type()), reflect.MakeMap(v.Type())
	d.pairs(n, func(name string) string { return Named(key, name) }, func(name, child *yaml.Node, childKey string) {
		if tag := name.ShortTag(); name.Kind != yaml.ScalarNode || tag == "!!merge" || tag == "!!null" {
			d.refuse(name, childKey, "has no name; one that YAML takes for something else stands in quotes")
			return
		}
		if err := form.check(name.Value); err != nil {
			d.refuse(name, childKey, "%v", err)
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(item, childKey, child)
		d.origins[childKey] = d.at(name)
		made.SetMapIndex(reflect.ValueOf(name.Value), item)
	})
	v.Set(made)
}
