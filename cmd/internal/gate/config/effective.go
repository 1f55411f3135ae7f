package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// overridesOf returns the values that a running gateway has from its variables and flags. The whole list or mapping of such a value is that
// of the gateway. A secret is a placeholder, with the form that each secret may have.
func overridesOf(running []Value) (settings []Setting, err error) {
	keys, root := Keys(), new(yaml.Node)
	for _, v := range running {
		key, ok := keyOf(keys, v.Key)
		from, _, _ := strings.Cut(v.Origin, ":") // that of auto has more
		if !ok || !strings.HasPrefix(from, "--") && from != key.Variable {
			continue
		}
		if key.Secret {
			v.Value = key.Name + "=" + unknownSecret
		}
		if len(settings) == 0 || settings[len(settings)-1].Key != key.Name {
			settings = append(settings, Setting{Key: key.Name, From: from})
		}
		if isUnset(v) {
			continue
		}
		if err := insert(root, keys, v); err != nil {
			return nil, err
		}
	}
	for i, s := range settings {
		n := root
		for rest := s.Key; rest != ""; {
			var name string
			if name, rest, err = cutKey(rest); err != nil {
				return nil, err
			}
			n = child(n, name)
		}
		settings[i].node = n
	}
	return settings, nil
}

// unknownSecret stands for a secret of a running gateway, which is not shown.
const unknownSecret = "not known here"

// isUnset reports whether a value in a list or under a free name is that of a key that was not written.
func isUnset(v Value) bool {
	return strings.Contains(v.Key, "[") && (v.Value == "" || v.Value == "false")
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

// FromEffective returns a configuration from its effective values, as a running gateway shows them. It is not validated, as its files may
// be on another machine. A secret is not shown: one that is set in both is that of like.
func FromEffective(values []Value, like Loaded) (Loaded, error) {
	root, keys := &yaml.Node{Kind: yaml.MappingNode}, Keys()
	d := &decoder{source: "the running gateway", origins: make(map[string]origin)}
	loaded := Loaded{Config: Default(), Path: like.Path, MemoryLimit: like.MemoryLimit, origins: d.origins}
	defaults, hidden, set := make(map[string]string), make(map[string]bool), make(map[string]bool)
	for leaf := range leaves(reflect.ValueOf(loaded.Config)) {
		if hidden[leaf.key] = leaf.isSecret(); !strings.Contains(leaf.key, "[") {
			defaults[leaf.key] = leaf.String()
		}
	}
	for _, v := range values {
		if hidden[v.Key] {
			set[v.Key] = v.Value != ""
			continue
		}
		if isUnset(v) || v.Value == defaults[v.Key] { // the latter is "" under free names
			continue
		}
		if err := insert(root, keys, v); err != nil {
			return Loaded{}, err
		}
	}
	d.value(reflect.ValueOf(&loaded.Config).Elem(), "", root)
	if len(d.problems) > 0 {
		return Loaded{}, d.problems
	}
	for _, key := range keys {
		if !key.Secret || !set[key.Name] {
			continue
		}
		secret := reflect.ValueOf(like.Config).FieldByIndex(key.index)
		if secret.IsZero() {
			secret = reflect.ValueOf(Secret{value: unknownSecret})
		}
		reflect.ValueOf(&loaded.Config).Elem().FieldByIndex(key.index).Set(secret)
		d.origins[key.Name] = origin{name: d.source}
	}
	return loaded, nil
}

// insert inserts a value into the mapping of a document.
func insert(n *yaml.Node, keys []Key, v Value) error {
	for rest := v.Key; rest != ""; {
		var name string
		var err error
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
	name := v.Key[strings.LastIndexByte(v.Key, '.')+1:]
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

// child returns the value of a name in a mapping, or the item of a list, and appends it if it is not there.
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
