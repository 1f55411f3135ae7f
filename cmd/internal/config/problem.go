package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one thing that is wrong with a configuration.
type Problem struct {
	Where string // "opsgate.yaml:12", "OPSGATE_LOG_LEVEL", "--listen"; "" where nobody said anything
	Line  int    // of the file; 0 elsewhere
	Key   string // "rate_limit.limits[0].requests"; "" where the file as a whole is wrong
	Text  string // what is wrong, in words that follow the key

	Warning bool // it is not what the configuration is refused for, and is told beside what is
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

// Problems are all that is wrong with a configuration: first what the file says, in the order of its lines.
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

// sorted returns the problems in the order in which they are reported, each once.
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

// beside returns the problems among what else is to be said: first what may be the reason for all of them.
func (ps Problems) beside(warnings Problems) Problems {
	all := slices.Clone(warnings)
	for i := range all {
		all[i].Warning = true
	}
	return append(all, ps...).sorted()
}

// under returns the problems of a key and of those under it, and those of the file as a whole.
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

// problem makes a Problem whose text is formatted.
func problem(at origin, key, format string, args ...any) Problem {
	return Problem{Where: at.String(), Line: at.line, Key: key, Text: fmt.Sprintf(format, args...)}
}
