package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Loaded is a configuration and what is to be said of it.
type Loaded struct {
	Config

	Path     string   // of the file; "" for none
	Warnings Problems // what looks like a mistake and is not refused

	origins map[string]origin // by key
}

// byDefault is the origin of a value that nobody gave.
const byDefault = "default"

// A Value is what a key has.
type Value struct {
	Key    string // "rate_limit.limits[0].requests"
	Value  string // as a file has it; of a secret no more than that there is one
	Origin string // "opsgate.yaml:12", "OPSGATE_LOG_LEVEL", "--listen" or "default"
}

// Effective returns the whole configuration, one value after the other, in the order of the keys. A list or a mapping with free
// names that is empty is a value as well.
func (l Loaded) Effective() []Value {
	all, values := Keys(), []Value(nil)
	for leaf := range leaves(reflect.ValueOf(l.Config)) {
		values = append(values, Value{Key: leaf.key, Value: leaf.String(), Origin: l.originAmong(all, leaf.key)})
	}
	return values
}

// Origin returns where the value of a key was given: a file and its line, a variable, a flag, or "default". What was not given
// itself inside of a list, or under a free name, comes from where the thing around it does.
func (l Loaded) Origin(key string) string { return l.originAmong(Keys(), key) }

// IsDefault tells whether nobody gave the value of a key.
func (l Loaded) IsDefault(key string) bool { return l.Origin(key) == byDefault }

func (l Loaded) originAmong(all []Key, key string) string {
	for ; key != ""; key = around(key) {
		if at, ok := l.origins[key]; ok {
			return at.String()
		}
		if slices.ContainsFunc(all, func(k Key) bool { return k.Name == key || strings.HasPrefix(k.Name, key+".") }) {
			break // what is around it has values of its own
		}
	}
	return byDefault
}

// where returns where a key was given, or the nearest thing around it that was.
func (l Loaded) where(key string) origin {
	for ; key != ""; key = around(key) {
		if at, ok := l.origins[key]; ok {
			return at
		}
	}
	return origin{name: l.Path}
}

// Version names what is configured in 12 hex digits. It is the same for the same values, wherever they were given and however the
// file is laid out. Secrets are no part of it.
func (l Loaded) Version() string {
	sum := sha256.New()
	for leaf := range leaves(reflect.ValueOf(l.Config)) {
		if !leaf.isSecret() {
			fmt.Fprintf(sum, "%s=%q\n", leaf.key, leaf)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// Files returns every file that the configuration was made of, or names for others to read at start: itself first, then those of
// secrets and of TLS.
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

// Unchangeable returns what the next configuration changes though the running gateway cannot.
func Unchangeable(running, next Loaded) Problems {
	var problems Problems
	before, after := reflect.ValueOf(running.Config), reflect.ValueOf(next.Config)
	for _, key := range Keys() {
		if key.Restart != "" && !same(before.FieldByIndex(key.index), after.FieldByIndex(key.index)) {
			problems = append(problems, problem(next.where(key.Name), key.Name, "cannot change while running (%s): restart", key.Restart))
		}
	}
	return problems.sorted()
}
