package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"opsgate/internal/filereader"
)

// Loaded is a valid configuration with its warnings and origins.
type Loaded struct {
	Config

	Path        string             // of the file; "" for none
	MemoryLimit int64              // of the gateway in bytes; 0 for none
	OpenFiles   int64              // the limit of the gateway; 0 for unknown
	Warnings    Problems           // probable mistakes
	Reader      *filereader.Reader // of its files

	Certificates []Certificate // of the files, in the order of the keys

	origins map[string]origin // by key
}

// byDefault is the origin of a default.
const byDefault = "default"

// A Value is the value of a key.
type Value struct {
	Key string `json:"key"` // "rate_limit.limits[0].requests"
	// as in a file, but a placeholder for a secret, and a number for auto, if the number is
	// constant while the gateway runs
	Value string `json:"value"`
	// "opsgate.yaml:12", "OPSGATE_LOG_LEVEL", "--listen" or "default"; for auto with the limit that
	// determines the number
	Origin string `json:"origin"`
}

// String returns the value as a line of text.
func (v Value) String() string {
	text := v.Value
	if strings.ContainsFunc(text, unicode.IsControl) {
		text = strconv.Quote(text)
	}
	return fmt.Sprintf("%s: %s  # %s", v.Key, text, v.Origin)
}

// Effective returns all values in the order of the keys, including empty lists and dictionaries.
func (l Loaded) Effective() []Value {
	all, values := Keys(), []Value(nil)
	for leaf := range leaves(reflect.ValueOf(l.Config)) {
		value := Value{Key: leaf.key, Value: leaf.String(), Origin: l.originAmong(all, leaf.key)}
		if leaf.key == maxConnectionsKey && l.HTTP.MaxConnections == Auto {
			value.Value = strconv.Itoa(l.MaxConnections())
			value.Origin += ": " + autoText + ", " + l.connectionsText()
		}
		values = append(values, value)
	}
	return values
}

// Origin returns the origin of a key's value: a file and its line, a variable, a flag, or
// "default". A default inside a list item or an entry of a dictionary has the origin of that item
// or entry.
func (l Loaded) Origin(key string) string { return l.originAmong(Keys(), key) }

// IsDefault reports whether the value of a key is the default.
func (l Loaded) IsDefault(key string) bool { return l.Origin(key) == byDefault }

func (l Loaded) originAmong(all []Key, key string) string {
	for ; key != ""; key = parentKey(key) {
		if at, ok := l.origins[key]; ok {
			return at.String()
		}
		if isKey(all, key) {
			break // a key of the schema does not inherit the origin of its mapping
		}
	}
	return byDefault
}

// where returns the origin of a key, else of the nearest mapping or list around the key.
func (l Loaded) where(key string) origin {
	for ; key != ""; key = parentKey(key) {
		if at, ok := l.origins[key]; ok {
			return at
		}
	}
	return origin{name: l.Path}
}

// Version returns a hash, in 12 hex digits, of the values that gateways with the same Redis and
// services should share. It omits secrets. Of the addresses to listen on and the paths of files, it
// includes only whether they are set. It does not depend on the origins of values or the layout of
// the file.
func (l Loaded) Version() string {
	sum := sha256.New()
	for leaf := range leaves(reflect.ValueOf(l.Config)) {
		switch {
		case leaf.isSecret():
		case leaf.perGateway:
			fmt.Fprintf(sum, "%s=%t\n", leaf.key, leaf.String() != "")
		default:
			fmt.Fprintf(sum, "%s=%q\n", leaf.key, leaf)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// Files returns the paths of the configuration file and of the files of secrets and TLS.
func (l Loaded) Files() []string {
	var files []string
	add := func(path string) {
		if path != "" && !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	add(l.Path)
	for leaf := range leaves(reflect.ValueOf(l.Config)) {
		switch value := leaf.value.Interface().(type) {
		case Secret:
			add(value.file)
		case File:
			add(string(value))
		}
	}
	return files
}

// RestartProblems returns a problem for each changed key that needs a restart.
func RestartProblems(running, next Loaded) Problems {
	var problems Problems
	before, after := reflect.ValueOf(running.Config), reflect.ValueOf(next.Config)
	for _, key := range Keys() {
		if key.Restart != "" && !equalValues(before.FieldByIndex(key.index), after.FieldByIndex(key.index)) {
			problems = append(problems, problem(next.where(key.Name), key.Name, "a change needs a restart (%s)", key.Restart))
		}
	}
	return problems.sorted()
}

// Changes returns a text for each key that was set, changed or removed between two configurations.
// It omits derived values: defaults of an added or removed entry, and generated names of limits. It
// does not show secrets.
func Changes(before, after Loaded) (texts []string) {
	was := make(map[string]leaf)
	for leaf := range leaves(reflect.ValueOf(before.Config)) {
		was[leaf.key] = leaf
	}
	for now := range leaves(reflect.ValueOf(after.Config)) {
		old, there := was[now.key]
		delete(was, now.key)
		switch {
		case !there && after.isExplicit(now):
			texts = append(texts, fmt.Sprintf("%s: now %s", now.key, now.shown()))
		case there && old.String() != now.String() && (before.sets(now.key) || after.sets(now.key)):
			texts = append(texts, fmt.Sprintf("%s: %s, now %s", now.key, old.shown(), now.shown()))
		}
	}
	for old := range leaves(reflect.ValueOf(before.Config)) {
		if _, gone := was[old.key]; gone && before.isExplicit(old) {
			texts = append(texts, fmt.Sprintf("%s: %s, now removed", old.key, old.shown()))
		}
	}
	return texts
}

// sets reports whether the key itself was set, not only a mapping or list around it.
func (l Loaded) sets(key string) bool {
	_, given := l.origins[key]
	return given
}

// isExplicit reports whether Changes reports a leaf that the other configuration lacks: the leaf
// was set, or is a nonzero value of a default item or entry.
func (l Loaded) isExplicit(of leaf) bool {
	if t := of.value.Type(); isList(t) || isDictionary(t) {
		return false // it is empty; the other configuration has leaves under it
	}
	return l.sets(of.key) || l.IsDefault(of.key) && !of.value.IsZero()
}

// shown returns the value as text; an empty value is two quotes.
func (l leaf) shown() string { return cmp.Or(l.String(), `""`) }

// settingsOf converts effective values of a running gateway to settings, one for each key: all
// values of a list or a dictionary make one setting. source returns the origin of a value, or "" to
// omit the value. Effective values do not contain secrets, so the setting of a secret is a
// placeholder that is valid for every key.
func settingsOf(running []Value, source func(Key, Value) string) (settings []Setting, err error) {
	keys := Keys()
	for _, v := range running {
		key, ok := keyOf(keys, v.Key)
		if !ok && v.Value == "" {
			continue // a key of another version, without a value
		}
		if !ok {
			return nil, fmt.Errorf("%s is not a key", v.Key)
		}
		from := source(key, v)
		if from == "" || isZeroInEntry(key, v) {
			continue
		}
		if key.Secret {
			v.Value = key.Name + "=" + unknownSecret
		}
		if len(settings) == 0 || settings[len(settings)-1].Key != key.Name {
			settings = append(settings, Setting{Key: key.Name, From: from, node: new(yaml.Node)})
		}
		if err := insert(settings[len(settings)-1].node, keys, v, strings.TrimPrefix(v.Key, key.Name)); err != nil {
			return nil, err
		}
	}
	return settings, nil
}

// unknownSecret is the end of the placeholder for a secret of a running gateway.
const unknownSecret = "not-known-here"

// isZeroInEntry reports whether v is a zero value inside a list or an entry. The entry does not
// contain the key, so it is left out.
func isZeroInEntry(key Key, v Value) bool {
	return v.Key != key.Name && (v.Value == "" || v.Value == "false")
}

// keyOf returns the key of the schema that a value belongs to.
func keyOf(keys []Key, name string) (Key, bool) {
	for _, key := range keys {
		if rest, ok := strings.CutPrefix(name, key.Name); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return key, true
		}
	}
	return Key{}, false
}

// variableOrFlag returns the variable or the flag that set a value of a running gateway, or "".
func variableOrFlag(key Key, v Value) string {
	from, _, _ := strings.Cut(v.Origin, ":") // the origin of an auto value ends with a colon and a text
	if strings.HasPrefix(from, "--") || from == key.Variable {
		return from
	}
	return ""
}

// FromEffective rebuilds the configuration of a running gateway from its effective values, without
// validation. like supplies what these lack: secrets set in both, the path of the file, the limits
// of the process.
func FromEffective(values []Value, like Loaded) (Loaded, error) {
	defaults := make(map[string]string)
	for leaf := range leaves(reflect.ValueOf(Default())) {
		if !strings.Contains(leaf.key, "[") { // a list becomes one setting, so default values in it are set too
			defaults[leaf.key] = leaf.String()
		}
	}
	settings, err := settingsOf(values, func(_ Key, v Value) string {
		if v.Value == defaults[v.Key] {
			return ""
		}
		return "the running gateway"
	})
	if err != nil {
		return Loaded{}, err
	}
	d := &decoder{origins: make(map[string]origin)}
	loaded := Loaded{Config: Default(), Path: like.Path, MemoryLimit: like.MemoryLimit, OpenFiles: like.OpenFiles,
		origins: d.origins}
	d.settings(&loaded.Config, settings)
	if len(d.problems) > 0 {
		return Loaded{}, d.problems
	}
	for _, key := range Keys() {
		secret, known := reflect.ValueOf(&loaded.Config).Elem().FieldByIndex(key.index),
			reflect.ValueOf(like.Config).FieldByIndex(key.index)
		if key.Secret && !secret.IsZero() && !known.IsZero() {
			secret.Set(known)
		}
	}
	return loaded, nil
}

// insert inserts a value into the node n of its key in the schema. path is the rest of the value's
// key, for example "[0].requests", or "" for n itself.
func insert(n *yaml.Node, keys []Key, v Value, path string) (err error) {
	var name string
	for path != "" {
		if name, path, err = cutKey(path); err != nil {
			return fmt.Errorf("the key %s: %w", v.Key, err)
		}
		if n.Kind = yaml.MappingNode; strings.HasPrefix(name, "[") {
			n.Kind = yaml.SequenceNode
		}
		n = child(n, name)
	}
	if v.Key == maxConnectionsKey && strings.Contains(v.Origin, ": "+autoText) {
		v.Value = autoText
	}
	name = v.Key[strings.LastIndexByte(v.Key, '.')+1:]
	key, _ := keyOf(keys, v.Key)
	// "[]" and "{}" are an empty list and dictionary at a key of the schema and at the lists of an
	// entry. Elsewhere they are text.
	mayBeEmpty := key.Name == v.Key || slices.Contains([]string{"limits", "teams", "tokens"}, name)
	switch {
	case v.Value == "[]" && mayBeEmpty:
		n.Kind = yaml.SequenceNode
	case v.Value == "{}" && mayBeEmpty:
		n.Kind = yaml.MappingNode
	default:
		n.Kind, n.Value = yaml.ScalarNode, v.Value
		if isNull(n) { // a text such as null, which needs quotes
			n.Style = yaml.DoubleQuotedStyle
			n.Tag = "!!str"
		}
	}
	return nil
}

// child returns the node of a name in a mapping, or of an item in a list such as "[0]". It appends
// a node if there is none.
func child(n *yaml.Node, name string) *yaml.Node {
	added := new(yaml.Node)
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(strings.Trim(name, "[]")); err == nil && i < len(n.Content) {
			return n.Content[i]
		}
		n.Content = append(n.Content, added)
		return added
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, added)
	return added
}

// cutKey returns the first name of a key, or "[0]" for an item of a list, and the rest.
func cutKey(key string) (name, rest string, err error) {
	switch key = strings.TrimPrefix(key, "."); {
	case strings.HasPrefix(key, `"`):
		quoted, err := strconv.QuotedPrefix(key)
		if err != nil {
			return "", "", err
		}
		name, err = strconv.Unquote(quoted)
		return name, key[len(quoted):], err
	case strings.HasPrefix(key, "["):
		at := strings.IndexByte(key, ']') + 1
		return key[:at], key[at:], nil
	}
	at := strings.IndexAny(key, ".[")
	if at < 0 {
		at = len(key)
	}
	return key[:at], key[at:], nil
}
