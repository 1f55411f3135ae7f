package config

import (
	"cmp"
	"fmt"
	"reflect"
)

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

// sets returns whether the key itself was set, not only a mapping or list around it.
func (l Loaded) sets(key string) bool {
	_, given := l.origins[key]
	return given
}

// isExplicit returns whether Changes reports a leaf that only this configuration has: the leaf was set, or belongs to a default entry.
func (l Loaded) isExplicit(of leaf) bool {
	if t := of.value.Type(); isList(t) || isDictionary(t) {
		return false // it is empty; the other configuration has leaves under it
	}
	return l.sets(of.key) || l.IsDefault(of.key) && !of.value.IsZero()
}

// shown returns the value as text, with quotes for an empty one.
func (l leaf) shown() string { return cmp.Or(l.String(), `""`) }
