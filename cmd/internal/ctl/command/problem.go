package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"opsgate/internal/commandline"
)

// Exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
	exitUnauthorized
	exitForbidden
	exitNotFound
	exitInvalid
	exitRateLimited
	exitUnavailable
	exitExpression
)

// exitCode is a row of the table of exit codes.
type exitCode struct {
	value   int
	meaning string
}

var exitCodes = []exitCode{
	{exitOK, "done"},
	{exitFailed, "another failure"},
	{exitUsage, "wrong usage, for example no token or an unknown flag"},
	{exitUnauthorized, "the token is missing, malformed, unknown, revoked or expired (401)"},
	{exitForbidden, "the token lacks a scope, or its team the plan (403)"},
	{exitNotFound, "there is no such resource or path (404)"},
	{exitInvalid, "the request is invalid (any other 4xx)"},
	{exitRateLimited, "rate limited for longer than --max-wait (429)"},
	{exitUnavailable, "the API is unavailable or fails: no connection, a timeout, a lost answer, or 5xx"},
	{exitExpression, "the request succeeded, but the expression of --jq failed on its answer"},
}

// exitCodeText returns the table in lines.
func exitCodeText() string {
	var b strings.Builder
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "  %d  %s\n", c.value, c.meaning)
	}
	return b.String()
}

// Codes of problems that are not answers of the API. They have no HTTP status.
const (
	codeNoConnection = "no_connection"     // no answer, or a part of one
	codeRedirected   = "redirected"        // an answer that points elsewhere
	codeUnexpected   = "unexpected_answer" // an answer that the API would not send
	codeInterrupted  = "interrupted"
	codeIncomplete   = "incomplete_list"
	codeExpression   = "failed_expression"
	codeUsage        = "wrong_usage"
	codeFailed       = "failed"
)

// A problem is why a request failed: an error of the API, or one of the codes above.
type problem struct {
	Text       string         `json:"error"`
	Code       string         `json:"code"`
	Status     int            `json:"status,omitempty"` // 0 without an answer
	Details    map[string]any `json:"details,omitempty"`
	RequestID  string         `json:"requestId,omitempty"`
	RetryAfter int            `json:"retryAfterSeconds,omitempty"`
	// Key is the idempotency key of a write that may have been executed.
	Key string `json:"idempotencyKey,omitempty"`

	asJSON  bool          // for Lines
	repeats bool          // whether repeating the request can help
	waited  time.Duration // between attempts
}

// Error returns the status, code and text.
func (p *problem) Error() string {
	if p.Status == 0 {
		return fmt.Sprintf("%s: %s", p.Code, p.Text)
	}
	return fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Text)
}

// ExitCode returns the exit code of the class of the problem.
func (p *problem) ExitCode() int {
	switch {
	case p.Status == http.StatusUnauthorized:
		return exitUnauthorized
	case p.Status == http.StatusForbidden:
		return exitForbidden
	case p.Status == http.StatusNotFound:
		return exitNotFound
	case p.Status == http.StatusTooManyRequests:
		return exitRateLimited
	case p.Status >= 500, p.Status == http.StatusRequestTimeout, p.Code == codeNoConnection:
		return exitUnavailable
	case p.Code == codeExpression:
		return exitExpression
	case p.Code == codeUsage:
		return exitUsage
	case p.Status >= 400:
		return exitInvalid
	}
	return exitFailed
}

// present makes a problem of any other error if the output is JSON. That flag may follow the
// mistake, which ended the reading of flags.
func (p *program) present(err error, arguments []string) error {
	asked := p.Output == asJSON ||
		regexp.MustCompile(`(?:^|\n)(?:-o|--output)[\n=]?json(?:\n|$)`).MatchString(strings.Join(arguments, "\n"))
	if _, isProblem := errors.AsType[*problem](err); isProblem || !asked {
		return err
	}
	code := codeFailed
	if _, isUsage := errors.AsType[commandline.UsageError](err); isUsage {
		code = codeUsage
	}
	return &problem{Code: code, Text: err.Error(), asJSON: true}
}

// Lines returns the problem for standard error: for people, or as a line of JSON.
func (p *problem) Lines() []string {
	if p.asJSON {
		return []string{jsonLine(struct {
			*problem

			ExitCode int `json:"exitCode"`
		}{p, p.ExitCode()})}
	}
	lines := []string{"opsctl: " + harmless(p.Error())}
	for _, name := range slices.Sorted(maps.Keys(p.Details)) {
		lines = append(lines, "  "+harmless(name)+": "+harmless(fmt.Sprint(p.Details[name])))
	}
	if p.RetryAfter > 0 {
		lines = append(lines, fmt.Sprintf("  retry after: %v", time.Duration(p.RetryAfter)*time.Second))
	}
	if p.RequestID != "" {
		lines = append(lines, "  request id: "+harmless(p.RequestID))
	}
	if p.Key != "" {
		lines = append(lines, "  it may have been executed; to repeat it safely: --idempotency-key "+harmless(p.Key))
	}
	return lines
}

// jsonLine returns a value as JSON in a line, which is harmless.
func jsonLine(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return strconv.Quote(err.Error()) // no value here has a part that cannot be encoded
	}
	return harmlessJSON(string(text))
}

// A note is a remark on standard error beside the result.
type note struct {
	Text string `json:"note"`
	Wait int    `json:"waitSeconds,omitempty"`
}

// note writes a remark to standard error.
func (p *program) note(n note) {
	if p.Output == asJSON {
		fmt.Fprintln(p.Err, jsonLine(n))
		return
	}
	fmt.Fprintln(p.Err, "opsctl:", harmless(n.Text))
}
