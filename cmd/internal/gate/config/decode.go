package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"opsgate/internal/configfile"
	"opsgate/internal/filereader"
)

// An origin is the place where a value was set.
type origin struct {
	name string // of a file, a variable or a flag
	line int    // of a file
}

func (o origin) String() string {
	if o.line == 0 {
		return o.name
	}
	return o.name + ":" + strconv.Itoa(o.line)
}

// A decoder applies layers to a configuration and records the origin of each value. The structs
// limit its recursion. maxValues limits its time, because aliases can multiply values.
type decoder struct {
	source      string // name of the layer
	inFile      bool   // the layer has lines and must not contain secrets
	environment map[string]string
	files       *filereader.Reader // reads secrets
	origins     map[string]origin  // by key
	values      int                // decoded so far
	problems    Problems
}

// maxValues is not reached by a file without aliases: each value takes at least two bytes.
const maxValues = filereader.MaxSize / 2

// at returns the origin of a node.
func (d *decoder) at(n *yaml.Node) origin {
	if !d.inFile {
		return origin{name: d.source}
	}
	return origin{name: d.source, line: n.Line}
}

func (d *decoder) refuse(n *yaml.Node, key, format string, args ...any) {
	d.problems = append(d.problems, problem(d.at(n), key, format, args...))
}

// value decodes a node into a value. An invalid node leaves the value as it is.
func (d *decoder) value(v reflect.Value, key string, n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.values++; d.values >= maxValues {
		if d.values == maxValues {
			d.refuse(n, key, "is beyond the maximum of %d values, aliases included", maxValues)
		}
		return
	}
	if _, before := d.origins[key]; before && !isMapping(v.Type()) && !isNull(n) {
		d.deleteOrigins(key)
	}
	d.origins[key] = d.at(n)
	switch {
	case isMapping(v.Type()):
		d.mapping(v, key, n)
	case isList(v.Type()):
		d.list(v, key, n)
	case isDictionary(v.Type()):
		d.dictionary(v, key, n)
	case n.Kind != yaml.ScalarNode:
		d.refuse(n, key, "must be a single value, not a %s", kindName(n))
	default:
		if err := d.scalar(v, n); err != nil {
			d.refuse(n, key, "%v", err)
		}
	}
}

// mapping decodes the keys of a mapping. An empty mapping, for example with all its keys commented
// out, changes nothing.
func (d *decoder) mapping(v reflect.Value, key string, n *yaml.Node) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.refuse(n, key, "must be a mapping of keys, not a %s", kindName(n))
		return
	}
	known := fields(v.Type())
	d.pairs(n, key, join, func(name, child *yaml.Node, childKey string) {
		at := slices.IndexFunc(known, func(f field) bool { return f.name == name.Value })
		if at < 0 || name.Kind != yaml.ScalarNode {
			d.refuse(name, entryKey(key, name.Value), "is not a key%s", suggestion(name.Value, known))
			return
		}
		d.value(v.FieldByIndex(known[at].Index), childKey, child)
		d.origins[childKey] = d.at(name)
	})
}

// pairs calls use with each name of a mapping, its value and its key. Repeated names are problems.
func (d *decoder) pairs(
	n *yaml.Node, key string, keyOf func(key, name string) string, use func(name, child *yaml.Node, childKey string),
) {
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, child := n.Content[i], n.Content[i+1]
		childKey := keyOf(key, name.Value)
		if first, ok := seen[name.Value]; ok {
			d.refuse(name, childKey, "is given twice, first in line %d", first)
			continue
		}
		seen[name.Value] = name.Line
		use(name, child, childKey)
	}
}

// list decodes a list, and replaces the previous list.
func (d *decoder) list(v reflect.Value, key string, n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		d.refuse(n, key, "must be a list, not a %s", kindName(n))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(list.Index(i), fmt.Sprintf("%s[%d]", key, i), item)
	}
	v.Set(list)
}

// dictionary decodes a dictionary, and replaces the previous dictionary. A key without a value
// changes nothing.
func (d *decoder) dictionary(v reflect.Value, key string, n *yaml.Node) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.refuse(n, key, "must be a mapping of names, not a %s", kindName(n))
		return
	}
	form, result := namesOf(v.Type()), reflect.MakeMap(v.Type())
	d.pairs(n, key, entryKey, func(name, child *yaml.Node, childKey string) {
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

// deleteOrigins deletes the origins under a key whose value this layer replaces.
func (d *decoder) deleteOrigins(key string) {
	maps.DeleteFunc(d.origins, func(at string, _ origin) bool {
		return strings.HasPrefix(at, key+".") || strings.HasPrefix(at, key+"[")
	})
}

func (d *decoder) scalar(v reflect.Value, n *yaml.Node) error {
	if isNull(n) {
		return errors.New("has no value")
	}
	switch target := v.Addr().Interface().(type) {
	case *Secret:
		return d.secret(target, n.Value)
	case scalar:
		return target.parse(n.Value)
	case choice:
		if !slices.Contains(target.choices(), n.Value) {
			return fmt.Errorf("must be %s, not %q", strings.Join(target.choices(), " or "), n.Value)
		}
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Int:
		return setInt(v, n)
	case reflect.Bool:
		return setBool(v, n)
	default:
		return fmt.Errorf("cannot be set: it is a %s", v.Type()) // a type without a case here
	}
	return nil
}

const byteOrderMark = "\ufeff"

// secret resolves a secret. In a variable or a flag the text may be the secret itself.
func (d *decoder) secret(s *Secret, text string) error {
	if text == "" {
		*s = Secret{}
		return nil
	}
	value, file, err := configfile.ResolveSecret(text, func(name string) string { return d.environment[name] }, d.files)
	if errors.Is(err, configfile.ErrNoReference) && !d.inFile {
		value, err = strings.TrimRight(text, "\r\n"), nil
	}
	if strings.HasPrefix(value, byteOrderMark) {
		return errors.New("begins with a byte order mark, which an editor has added")
	}
	if err == nil {
		*s = Secret{value, file}
	}
	return err
}

// setInt accepts only plain decimal numbers, because YAML versions differ in the value of 010.
func setInt(v reflect.Value, n *yaml.Node) error {
	parsed, err := strconv.Atoi(n.Value)
	if err != nil || n.ShortTag() != "!!int" || strconv.Itoa(parsed) != n.Value {
		return fmt.Errorf("must be a whole number, not %q", n.Value)
	}
	v.SetInt(int64(parsed))
	return nil
}

func setBool(v reflect.Value, n *yaml.Node) error {
	if n.ShortTag() != "!!bool" || n.Value != "true" && n.Value != "false" {
		return fmt.Errorf("must be true or false, not %q", n.Value)
	}
	v.SetBool(n.Value == "true")
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "list"
	default:
		return "single value"
	}
}

// suggestion returns "; did you mean NAME?" with the most similar key, or "".
func suggestion(written string, known []field) string {
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.name
	}
	return suggestionOf(written, names)
}

func suggestionOf(written string, known []string) string {
	best, name := 3, "" // at most two letters may differ
	for _, other := range known {
		if d := distance(written, other); d < best && d < len(other) {
			best, name = d, other
		}
	}
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

// distance returns the Levenshtein distance of a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
