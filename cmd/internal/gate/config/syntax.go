package config

import (
	"regexp"
	"strconv"

	"opsgate/cmd/internal/kit/yamlerror"
)

var (
	syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	// grammarError matches the errors for which the YAML library counts lines from zero, without printing a zero.
	grammarError = regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key|',' or )`)
)

// syntaxProblem converts an error of the YAML library. Its line is that of the invalid construct, which may begin before the mistake.
func syntaxProblem(file string, err error) Problem {
	at, text := origin{name: file}, yamlerror.Text(err)
	if match := syntaxError.FindStringSubmatch(text); match != nil {
		at.line, _ = strconv.Atoi(match[1])
		text = match[2]
	}
	if grammarError.MatchString(text) {
		at.line++
	}
	return problem(at, "", "is not YAML: %s", text)
}
