package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is a mistake in a configuration.
type Problem struct {
	Where string // "opsgate.yaml:12", "OPSGATE_LOG_LEVEL", "--listen"; "" for a default
	Line  int    // of the file; 0 elsewhere
	Key   string // "rate_limit.limits[0].requests"; "" for the whole file
	Text  string // the text after the key

	Warning bool // it does not make the configuration invalid
}

// Error returns the problem in one line.
func (p Problem) Error() string {
	parts := make([]string, 0, 4)
	if p.Warning {
		parts = append(parts, "warning")
	}
	for _, part := range []string{p.Where, p.Key} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(append(parts, p.Text), ": ")
}

// Schema names of problems that no key of the schema describes.
const (
	wholeFile  = "file"
	unknownKey = "unknown"
)

// SchemaKey returns the key of the schema that the problem is about: Key without the names of entries and the indexes of lists, or the
// mapping around an unknown key. It is "file" for the whole file, and "unknown" for an unknown key at its top. The number of its values is
// bounded.
func (p Problem) SchemaKey() string {
	if p.Key == "" {
		return wholeFile
	}
	all := Keys()
	for key := p.Key; key != ""; key = parentKey(key) {
		if slices.ContainsFunc(all, func(k Key) bool { return k.Name == key || strings.HasPrefix(k.Name, key+".") }) {
			return key
		}
	}
	return unknownKey
}

// Problems are the problems of a configuration: first those of the file, in the order of its lines.
type Problems []Problem

// Error returns the problems, one a line.
func (ps Problems) Error() string { return strings.Join(ps.Lines(), "\n") }

// Lines returns a line for each problem.
func (ps Problems) Lines() []string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return lines
}

// sorted returns the problems in the order of the report, without duplicates.
func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			compareBools(a.Line == 0, b.Line == 0),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Where, b.Where),
		)
	})
	return slices.Compact(ps)
}

// withWarnings returns the problems and the warnings.
func (ps Problems) withWarnings(warnings Problems) Problems {
	all := slices.Clone(warnings)
	for i := range all {
		all[i].Warning = true
	}
	return append(all, ps...).sorted()
}

// under returns the problems of a key, of keys under it, and of the whole file.
func (ps Problems) under(key string) Problems {
	return slices.DeleteFunc(ps, func(p Problem) bool {
		return key != "" && p.Key != "" && p.Key != key && !strings.HasPrefix(p.Key, key+".")
	})
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// Problem returns a problem with the value of a key, found where the configuration is used.
func (l Loaded) Problem(key, text string) Problem { return problem(l.where(key), key, "%s", text) }

// problem returns a Problem with a formatted text.
func problem(at origin, key, format string, args ...any) Problem {
	return Problem{Where: at.String(), Line: at.line, Key: key, Text: fmt.Sprintf(format, args...)}
}
