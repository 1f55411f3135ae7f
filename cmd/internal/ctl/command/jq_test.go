package command_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"opsgate/cmd/internal/test/devtest"
	"opsgate/internal/testkit"
)

func TestJQSeesTheItemsOfAllPagesAtOnce(t *testing.T) {
	u := startSystem(t, devtest.HighLimits).as("full")
	ids := u.must(t, "incidents", "list", "--all", "-o", "id")
	if got := u.must(t, "incidents", "list", "--all", "--jq", ".[].id"); got != ids || strings.Count(ids, "\n") < 150 {
		t.Errorf("got %q, want %q", got, ids)
	}
	server := u.must(t, "servers", "list", "--jq", ".[0].id")
	for _, c := range [][2]string{
		{"incidents list --all --jq length", strconv.Itoa(strings.Count(ids, "\n") + 1)},
		{"incidents list --limit 120 --jq length", "120"},
		{"servers commands " + server + " --jq type", "array"},
		{"me --jq .scopes|length --output table", "9"},
		{"api GET /v1/audit?limit=3 --jq .items|length", "3"},
		{"incidents create --title a --impact none --message b -o json --jq [.title,.status]|join(\"/\")", "a/investigating"},
	} {
		if got := u.must(t, strings.Split(c[0], " ")...); got != c[1] {
			t.Errorf("%s: got %q, want %q", c[0], got, c[1])
		}
	}
}

func TestJQPrintsTextsWithoutQuotesAndOtherValuesAsJSON(t *testing.T) {
	const text = `{"a": "x\u001b[1m\u202e\ty", "n": 12345678901234567890, "f": 1.50, "list": [1, {"b": null}], "none": null, "tag": "\u202e"}`
	s := startStub(t, answer(200, text))
	const odd = "x\x1b[1m\u202e\ty"
	for _, c := range []struct {
		expression, want string
		terminal         bool
	}{
		{".a", odd, false},
		{".a", `x\x1b[1m\u202e` + "\ty", true},
		{".n, .f, .none, true", "12345678901234567890\n1.50\nnull\ntrue", false},
		{".list", `[1,{"b":null}]`, false},
		{"[.tag]", `["\u202e"]`, false},
		{"empty", "", false},
		{"1, halt, 2", "1", false},
		{"env, $ENV", "{}\n{}", false},
	} {
		s.terminal = c.terminal
		if got := s.must(t, "api", "GET", "/v1/x", "--jq", c.expression); got != c.want {
			t.Errorf("%s: got %q, want %q", c.expression, got, c.want)
		}
	}
}

func TestWrongJQIsAUsageErrorBeforeAnyRequest(t *testing.T) {
	s := startStub(t, answer(200, identity))
	for _, arguments := range [][]string{
		{"--jq", ".["},
		{"--jq", "unknown_function"},
		{"--jq", `import "a" as a; .`},
		{"--jq", "input"},
	} {
		for _, command := range [][]string{{"me"}, create(), {"api", "GET", "/v1/me"}} {
			if r := s.run(t, append(command, arguments...)...); r.code != 2 || r.out != "" || !strings.Contains(r.err, "jq") {
				t.Errorf("%q: %+v", arguments, r)
			}
		}
	}
	if len(s.seen()) > 0 {
		t.Errorf("%d requests", len(s.seen()))
	}
}

func TestFailingJQHasItsOwnExitCode(t *testing.T) {
	s := startStub(t, answer(200, identity))
	for expression, want := range map[string]string{
		".scopes, .scopes.x":  "expected an object but got: array",
		`error("a\u001bb")`:   `a\u001bb`,
		`"stop" | halt_error`: "stop",
	} {
		r := s.run(t, "me", "-o", "json", "--jq", expression)
		if r.code != 9 || !strings.Contains(r.err, `"code":"failed_expression"`) || !strings.Contains(r.err, want) || strings.Count(r.err, "\n") != 1 {
			t.Errorf("%s: %+v", expression, r)
		}
	}
	for _, text := range []string{"<html>", ""} {
		if r := startStub(t, answer(200, text)).run(t, "api", "GET", "/x", "--jq", "."); r.code != 1 || r.out != "" || !strings.Contains(r.err, "in JSON") {
			t.Errorf("%q: %+v", text, r)
		}
	}
	if r := startStub(t, failure(403, "forbidden")).run(t, "me", "--jq", "."); r.code != 4 || !strings.Contains(r.err, "403 forbidden") {
		t.Errorf("got %+v", r)
	}
}

func TestInterruptEndsAnEndlessExpression(t *testing.T) {
	s := startStub(t, answer(200, identity))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "me", "--jq", "range(infinite) | select(. < 1)")
	cmd.Env = append(os.Environ(), asProgram+"=1", "OPSCTL_URL="+s.url, "OPSCTL_TOKEN="+s.token)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	testkit.Must(t, err)
	testkit.Must(t, cmd.Process.Signal(os.Interrupt))
	failed, ok := errors.AsType[*exec.ExitError](cmd.Wait())
	if !ok || failed.ExitCode() != 1 || line != "0\n" || !strings.Contains(errs.String(), "interrupted: interrupted in the expression") {
		t.Errorf("%v after %q: %s", failed, line, &errs)
	}
}
