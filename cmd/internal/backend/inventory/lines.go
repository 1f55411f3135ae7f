package inventory

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// lines are those of the rows and fields of a file; the zero value has none.
type lines struct{ document yaml.Node }

// place matches where a problem of a file is, as the library of the schema writes it.
var place = regexp.MustCompile(`at '([^']*)'`)

// add adds lines to the places in the text of an error.
func (l lines) add(err error) error {
	if err == nil || len(l.document.Content) == 0 {
		return err
	}
	return errors.New(place.ReplaceAllStringFunc(err.Error(), func(at string) string {
		return fmt.Sprintf("line %d, %s", l.of(place.FindStringSubmatch(at)[1]), at)
	}))
}

// of returns the line of a path, or that of the last part of it which the document has.
func (l lines) of(path string) int {
	node := l.document.Content[0]
	for key := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if node.Alias != nil {
			node = node.Alias
		}
		index, err := strconv.Atoi(key)
		switch {
		case node.Kind == yaml.SequenceNode && err == nil && index < len(node.Content):
			node = node.Content[index]
		case node.Kind == yaml.MappingNode:
			for i := 0; i < len(node.Content); i += 2 {
				if node.Content[i].Value == key {
					node = node.Content[i+1]
					break
				}
			}
		}
	}
	return node.Line
}
