package openapi

import (
	"bytes"
	_ "embed" // for openapi.yaml
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var source string

// YAML returns the document as YAML.
func YAML() []byte { return []byte(source) }

// JSON returns the document as compact JSON, with its keys in the order of the YAML.
func JSON() []byte {
	doc, err := toJSON([]byte(source))
	if err != nil {
		panic(fmt.Sprintf("openapi: the embedded openapi.yaml is invalid: %v", err))
	}
	return doc
}

// toJSON converts a YAML document. It keeps the order of keys, which maps would lose.
func toJSON(document []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return nil, fmt.Errorf("reading YAML: %w", err)
	}
	var w bytes.Buffer
	if err := writeNode(&w, &root); err != nil {
		return nil, err
	}
	return w.Bytes(), nil
}

func writeNode(w *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.DocumentNode:
		return writeNode(w, n.Content[0])
	case yaml.MappingNode:
		return writeMapping(w, n)
	case yaml.SequenceNode:
		return writeSequence(w, n)
	case yaml.ScalarNode:
		return writeScalar(w, n)
	}
	return fmt.Errorf("line %d: only mappings, sequences and scalars can be converted to JSON", n.Line)
}

func writeMapping(w *bytes.Buffer, n *yaml.Node) error {
	w.WriteByte('{')
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag != "!!str" {
			return fmt.Errorf("line %d: key %s is not a string; quote it", key.Line, key.Value)
		}
		if i > 0 {
			w.WriteByte(',')
		}
		if err := writeScalar(w, key); err != nil {
			return err
		}
		w.WriteByte(':')
		if err := writeNode(w, value); err != nil {
			return err
		}
	}
	w.WriteByte('}')
	return nil
}

func writeSequence(w *bytes.Buffer, n *yaml.Node) error {
	w.WriteByte('[')
	for i, element := range n.Content {
		if i > 0 {
			w.WriteByte(',')
		}
		if err := writeNode(w, element); err != nil {
			return err
		}
	}
	w.WriteByte(']')
	return nil
}

func writeScalar(w *bytes.Buffer, n *yaml.Node) error {
	if n.Tag == "!!timestamp" {
		return fmt.Errorf("line %d: some YAML parsers read %s as a date and others as a string; quote it", n.Line, n.Value)
	}
	var value any
	if err := n.Decode(&value); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	w.Truncate(w.Len() - 1) // Encode ends with a line break
	return nil
}
