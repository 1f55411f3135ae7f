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
	OpenFiles   int64              // maximum of the gateway; 0 for unknown
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
	// as in a file; a placeholder for a secret; the number for auto, if it is constant while the
	// gateway runs
	Value string `json:"value"`
	// "opsgate.yaml:12", "OPSGATE_LOG_LEVEL", "--listen" or "default"; for auto with what the
	// number depends on
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

// Effective returns all values in the order of the keys. An empty list or dictionary is a value
// too.
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
			break // the enclosing mapping has keys of its own
		}
	}
	return byDefault
}

// where returns the origin of a key, or else of the nearest mapping or list around it.
func (l Loaded) where(key string) origin {
	for ; key != ""; key = parentKey(key) {
		if at, ok := l.origins[key]; ok {
			return at
		}
	}
	return origin{name: l.Path}
}

// Version returns a hash of the values that gateways with the same Redis and services should share,
// in 12 hex digits: all but secrets, the addresses to listen on and the paths of files, of which
// only it matters whether there is one. It does not depend on the origins of values or the layout
// of the file.
func (l Loaded) Version() string {
	sum := sha256.New()
	for leaf := range leaves(reflect.ValueOf(l.Config)) {
		switch {
		case leaf.isSecret():
		case leaf.ofOneGateway:
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

// isExplicit reports whether Changes reports a leaf that only this configuration has: the leaf was
// set, or belongs to a default entry.
func (l Loaded) isExplicit(of leaf) bool {
	if t := of.value.Type(); isList(t) || isDictionary(t) {
		return false // it is empty; the other configuration has leaves under it
	}
	return l.sets(of.key) || l.IsDefault(of.key) && !of.value.IsZero()
}

// shown returns the value as text, with quotes for an empty one.
func (l leaf) shown() string { return cmp.Or(l.String(), `""`) }

// settingsOf converts values of a running gateway to settings, one for each key: a list or a
// dictionary is set as a whole. source returns the origin of a value; a value for which it returns
// "" is left out. The value of a secret, which is not shown, is a placeholder in a form that every
// secret may have.
func settingsOf(running []Value, source func(Key, Value) string) (settings []Setting, err error) {
	keys := Keys()
	for _, v := range running {
		key, ok := keyOf(keys, v.Key)
		if !ok && v.Value == "" {
			continue // unset, in another version
		}
		if !ok {
			return nil, fmt.Errorf("%s is not a key", v.Key)
		}
		from := source(key, v)
		if from == "" || isUnset(key, v) {
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

// unknownSecret stands for a secret of a running gateway, which is not shown.
const unknownSecret = "not-known-here"

// isUnset reports whether a value in a list or mapping of a key is that of a key that was not
// written there.
func isUnset(key Key, v Value) bool {
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

// ofVariableOrFlag returns the variable or the flag that a running gateway has a value from, or "".
func ofVariableOrFlag(key Key, v Value) string {
	from, _, _ := strings.Cut(v.Origin, ":") // that of auto has more
	if strings.HasPrefix(from, "--") || from == key.Variable {
		return from
	}
	return ""
}

// FromEffective returns a configuration from its effective values, as a running gateway shows them.
// It is not validated, as its files may be on another machine. A secret is not shown: one that is
// set in both is that of like.
func FromEffective(values []Value, like Loaded) (Loaded, error) {
	defaults := make(map[string]string)
	for leaf := range leaves(reflect.ValueOf(Default())) {
		if !strings.Contains(leaf.key, "[") { // of a list, all items are set
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

// insert inserts a value into a part of a document. The rest is its key in that part.
func insert(n *yaml.Node, keys []Key, v Value, rest string) (err error) {
	var name string
	for rest != "" {
		if name, rest, err = cutKey(rest); err != nil {
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
	isWhole := key.Name == v.Key || slices.Contains([]string{"limits", "teams", "tokens"}, name)
	switch {
	case v.Value == "[]" && isWhole:
		n.Kind = yaml.SequenceNode
	case v.Value == "{}" && isWhole:
		n.Kind = yaml.MappingNode
	default:
		n.Kind, n.Value = yaml.ScalarNode, v.Value
		if isNull(n) {
			n.Style = yaml.DoubleQuotedStyle
			n.Tag = "!!str"
		}
	}
	return nil
}

// child returns the value of a name in a mapping, or the item of a list, and appends it if it is
// not there.
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
