package config

import (
	"cmp"
	"fmt"
	"reflect"
)

// Changes says what somebody changed between two configurations, a key in each text. What merely follows from that is left out:
// defaults of an entry that is new or gone, and names that limits have for their intervals. Of secrets it shows nothing.
func Changes(before, after Loaded) (texts []string) {
	was := make(map[string]leaf)
	for leaf := range leaves(reflect.ValueOf(before.Config)) {
		was[leaf.key] = leaf
	}
	for now := range leaves(reflect.ValueOf(after.Config)) {
		old, there := was[now.key]
		delete(was, now.key)
		switch {
		case !there && after.tells(now):
			texts = append(texts, fmt.Sprintf("%s: now %s", now.key, now.shown()))
		case there && old.String() != now.String() && (before.gives(now.key) || after.gives(now.key)):
			texts = append(texts, fmt.Sprintf("%s: %s, now %s", now.key, old.shown(), now.shown()))
		}
	}
	for old := range leaves(reflect.ValueOf(before.Config)) {
		if _, gone := was[old.key]; gone && before.tells(old) {
			texts = append(texts, fmt.Sprintf("%s: %s, now gone", old.key, old.shown()))
		}
	}
	return texts
}

// gives tells whether somebody gave the very key, and not a thing around it alone.
func (l Loaded) gives(key string) bool {
	_, given := l.origins[key]
	return given
}

// tells tells whether a leaf says something that the other configuration has not: somebody gave it, or it is of an entry that is there
// by default and went or came with all that it has.
func (l Loaded) tells(of leaf) bool {
	if t := of.value.Type(); isList(t) || isDictionary(t) {
		return false // it is empty: what was in it, or is, speaks for itself
	}
	return l.gives(of.key) || l.IsDefault(of.key) && !of.value.IsZero()
}

// shown is the value for people, to whom an empty one would be no value.
func (l leaf) shown() string { return cmp.Or(l.String(), `""`) }
