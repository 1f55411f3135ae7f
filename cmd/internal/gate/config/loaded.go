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
)

// Loaded is a valid configuration with its warnings and origins.
type Loaded struct {
	Config

	Path        string   // of the file; "" for none
	MemoryLimit int64    // of the gateway in bytes; 0 for none
	Warnings    Problems // probable mistakes

	Certificates []Certificate // of the files, in the order of the keys

	origins map[string]origin // by key
}

// byDefault is the origin of a default.
const byDefault = "default"

// A Value is the value of a key.
type Value struct {
	Key    string `json:"key"`    // "rate_limit.limits[0].requests"
	Value  string `json:"value"`  // as in a file; a placeholder for a secret; the number for auto, if it is constant while the gateway runs
	Origin string `json:"origin"` // "opsgate.yaml:12", "OPSGATE_LOG_LEVEL", "--listen" or "default"; for auto with what the number depends on
}

// String returns the value as a line of text.
func (v Value) String() string {
	text := v.Value
	if strings.ContainsFunc(text, unicode.IsControl) {
		text = strconv.Quote(text)
	}
	return fmt.Sprintf("%s: %s  # %s", v.Key, text, v.Origin)
}

// Effective returns all values in the order of the keys. An empty list or dictionary is a value too.
func (l Loaded) Effective() []Value {
	all, values := Keys(), []Value(nil)
	for leaf := range leaves(reflect.ValueOf(l.Config)) {
		value := Value{Key: leaf.key, Value: leaf.String(), Origin: l.originAmong(all, leaf.key)}
		if leaf.key == maxConnectionsKey && l.HTTP.MaxConnections == Auto {
			value.Value = strconv.Itoa(l.MaxConnections())
			value.Origin += ": " + autoText + ", " + l.memoryText()
		}
		values = append(values, value)
	}
	return values
}

// Origin returns the origin of a key's value: a file and its line, a variable, a flag, or "default". A default inside a list item or an
// entry of a dictionary has the origin of that item or entry.
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

// Version returns a hash of the values that gateways with the same Redis and services should share, in 12 hex digits: all but secrets, the
// addresses to listen on and the paths of files, of which only it matters whether there is one. It does not depend on the origins of values
// or the layout of the file.
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
		if key.Restart != "" && !same(before.FieldByIndex(key.index), after.FieldByIndex(key.index)) {
			problems = append(problems, problem(next.where(key.Name), key.Name, "a change needs a restart (%s)", key.Restart))
		}
	}
	return problems.sorted()
}

// Changes returns a text for each key that was set, changed or removed between two configurations. It omits derived values: defaults of
// an added or removed entry, and generated names of limits. It does not show secrets.
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

// isExplicit reports whether Changes reports a leaf that only this configuration has: the leaf was set, or belongs to a default entry.
func (l Loaded) isExplicit(of leaf) bool {
	if t := of.value.Type(); isList(t) || isDictionary(t) {
		return false // it is empty; the other configuration has leaves under it
	}
	return l.sets(of.key) || l.IsDefault(of.key) && !of.value.IsZero()
}

// shown returns the value as text, with quotes for an empty one.
func (l leaf) shown() string { return cmp.Or(l.String(), `""`) }
