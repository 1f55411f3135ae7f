package command_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"opsgate/cmd/internal/gate/command"
	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

// good is a complete configuration.
const good = `listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
upstreams:
  fleet: &away {address: 127.0.0.1:1}
  monitoring: *away
  incident: *away
  audit: *away
  identity: *away
shutdown: {drain_wait: 0s}
`

// A result is the exit code and the output of a run.
type result struct {
	code     int
	out, err string
}

func opsgate(t *testing.T, variables []string, arguments ...string) result {
	t.Helper()
	return run(t, command.Environment{Variables: variables}, arguments...)
}

// run runs the program with an environment, whose output it returns.
func run(t *testing.T, e command.Environment, arguments ...string) result {
	t.Helper()
	out, err := new(bytes.Buffer), new(bytes.Buffer)
	e.Out, e.Err = out, err
	code := command.Run(t.Context(), arguments, e)
	return result{code, out.String(), err.String()}
}

// words returns a text whose columns are separated by one space.
func words(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " ")+"\n")
	}
	return strings.Join(lines, "")
}

// serve runs opsgate serve until stop is called or the test ends. Its exit code must be 0.
func serve(t *testing.T, variables []string, arguments ...string) (log *testkit.Buffer, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	log, ended := new(testkit.Buffer), make(chan int, 1)
	go func() {
		ended <- command.Run(ctx, append([]string{"serve"}, arguments...), command.Environment{Out: log, Err: log, Variables: variables})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if got := <-ended; got != 0 {
			t.Errorf("exit code %d; the log:\n%s", got, log)
		}
	})
	t.Cleanup(stop)
	return log, stop
}

func write(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "opsgate.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestCommandLine(t *testing.T) {
	file := write(t, good)
	for _, test := range []struct {
		name      string
		variables []string
		arguments []string
		code      int
		out, err  string // substrings
	}{
		{"help", nil, []string{"--help"}, 0, "healthcheck", ""},
		{"help of a command", nil, []string{"serve", "--help"}, 0, "$OPSGATE_CONFIG", ""},
		{"no command", nil, nil, 2, "", "Try: opsgate --help\n"},
		{"no such command", nil, []string{"start"}, 2, "", "unknown command \"start\""},
		{"no such flag", nil, []string{"serve", "--port=1"}, 2, "", "unknown flag: --port\nTry: opsgate serve --help\n"},
		{"no value", nil, []string{"limits", "x", "--timeout"}, 2, "", "opsgate: flag needs an argument: --timeout\nTry: opsgate limits --help\n"},
		{"no argument", nil, []string{"explain", "x"}, 2, "", "Try: opsgate explain --help\n"},
		{"version", nil, []string{"version"}, 0, "opsgate dev\nrevision: ", ""},
		{"version by flag", nil, []string{"--version"}, 0, "opsgate dev\nrevision: ", ""},
		{"completion", nil, []string{"completion", "bash"}, 0, "bash completion V2 for opsgate", ""},
		{"schema", nil, []string{"schema"}, 0, `"token_prefix"`, ""},
		{"check", nil, []string{"check", "--config", file}, 0, "the configuration from " + file + " is valid", ""},
		{"check with a memory limit", nil, []string{"check", "--config", file, "--memory", "512MiB"}, 0, "is valid", ""},
		{"check of more connections than fit", []string{"OPSGATE_HTTP_MAX_CONNECTIONS=10000"}, []string{"check", "--config", file, "--memory", "512MiB"}, 0,
			"is valid", "http.max_connections: is 10000, which can need "},
		{"config", nil, []string{"config", "--config", file}, 0, "\nhttp.max_in_flight: 1024  # default\n", ""},
		{"config with a memory limit", nil, []string{"config", "--config", file, "--memory", "512MiB"}, 0,
			"  # default: auto, from the memory limit of 460 MiB\n", ""},
		{"config of an invalid file", []string{"OPSGATE_LOG_LEVEL=loud"}, []string{"config", "--config", file}, 1, "", "log.level: must be "},
		{"check by variable", []string{"OPSGATE_CONFIG=" + file}, []string{"check"}, 0, "is valid", ""},
		{"check warns", []string{"OPSGATE_LISTN=:1"}, []string{"check", "--config", file}, 0, "is valid", "warning: OPSGATE_LISTN: sets no key"},
		{"a bad variable", []string{"OPSGATE_LOG_LEVEL=loud"}, []string{"check", "--config", file}, 1, "", "OPSGATE_LOG_LEVEL: log.level: must be "},
		{"no file", nil, []string{"check", "--config", file + ".yml"}, 1, "", "opsgate: read the configuration: open " + file + ".yml"},
		{"a warning beside", []string{"OPSGATE_LOG_LEVEL=loud", "OPSGATE_LISTN=:1"}, []string{"check", "--config", file}, 1, "", "warning: OPSGATE_LISTN: sets no key"},
		{"no file at the variable", []string{"OPSGATE_CONFIG=" + file + ".yml"}, []string{"check"}, 1, "", "read the configuration that OPSGATE_CONFIG names: open "},
		{"no time to respond", nil, []string{"healthcheck", "--admin", "127.0.0.1:1", "--timeout", "0s"}, 1, "", "http://127.0.0.1:1 did not respond within 0s"},
		{"a bad flag", nil, []string{"serve", "--config", file, "--listen", "8080"}, 1, "", "--listen: listen: must be an address"},
		{"an address of another machine", nil, []string{"serve", "--config", file, "--listen", "192.0.2.1:80"}, 1, "", "bind the public listener"},
		{"a listener elsewhere", nil, []string{"healthcheck", "--admin", "127.0.0.1:1"}, 1, "", "127.0.0.1:1: connect: connection refused"},
		{"an admin address without a port", nil, []string{"healthcheck", "--admin", "gate-7"}, 2, "", "--admin is an address with a port, for example"},
		{"an invalid admin address", nil, []string{"limits", "x", "--admin", "ftp://gate-7:9090"}, 2, "", "or a URL, for example"},
		{"two admin addresses", nil, []string{"healthcheck", "--admin", "a:1", "--admin-listen", "a:1"}, 2, "", "none of the others can be"},
		{"no listener", nil, []string{"healthcheck", "--config", file, "--admin-listen", "127.0.0.1:1"}, 1, "", "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := opsgate(t, test.variables, test.arguments...)
			if got.code != test.code || !strings.Contains(got.out, test.out) || !strings.Contains(got.err, test.err) {
				t.Errorf("got %+v", got)
			}
			if test.code == 0 && test.err == "" && got.err != "" {
				t.Errorf("standard error has %q", got.err)
			}
		})
	}
}

// The gateway reads its file again at each change. A pipe, such as that of <(helm template …) in a
// shell, can be read once.
func TestOnlyCommandsThatReadOnceTakeAPipe(t *testing.T) {
	file, pipe := write(t, good), filepath.Join(t.TempDir(), "pipe")
	testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
	if got := opsgate(t, nil, "serve", "--config", pipe); got.code != 1 || !strings.Contains(got.err, pipe+" is a pipe, not a regular file") {
		t.Errorf("serve: got %+v", got)
	}
	for _, arguments := range [][]string{{"check"}, {"config"}, {"diff", "--with", file}} {
		go func() { _ = os.WriteFile(pipe, []byte(good), 0o600) }() // waits for the reader
		if got := opsgate(t, nil, append(arguments, "--config", pipe)...); got.code != 0 {
			t.Errorf("%v: got %+v", arguments, got)
		}
	}
}

func TestCheckNamesFileLineAndKeyOfEveryProblem(t *testing.T) {
	file := write(t, good+"listn: 1\nrate_limit: {expected_replicas: 0}\n")
	got := opsgate(t, nil, "check", "--config", file)
	want := fmt.Sprintf("%[1]s:10: listn: is not a key; did you mean listen?\n"+
		"%[1]s:11: rate_limit.expected_replicas: must be auto or 1 to 10000, not 0\n", file)
	if got.code != 1 || got.err != want {
		t.Errorf("got %d %q, want %q", got.code, got.err, want)
	}
}

func TestAMissingConfigurationFileIsReported(t *testing.T) {
	if _, err := os.Stat(config.DefaultPath); err == nil {
		testkit.SkipWithout(t, "a machine without "+config.DefaultPath, "it is the file of this machine's gateway")
	}
	for _, command := range []string{"check", "serve"} {
		got := opsgate(t, nil, command)
		if got.code != 1 || !strings.HasPrefix(got.err, "warning: "+config.NoFileText+"\n") || !strings.Contains(got.err, "upstreams.fleet.address: is required") {
			t.Errorf("%s: got %+v", command, got)
		}
	}
	variables := []string{"OPSGATE_LISTEN=127.0.0.1:0", "OPSGATE_ADMIN_LISTEN=127.0.0.1:0", "OPSGATE_SHUTDOWN_DRAIN_WAIT=0s"}
	for _, service := range []string{"FLEET", "MONITORING", "INCIDENT", "AUDIT", "IDENTITY"} {
		variables = append(variables, "OPSGATE_UPSTREAMS_"+service+"_ADDRESS=127.0.0.1:1")
	}
	if got := opsgate(t, variables, "check"); got.code != 0 || !strings.Contains(got.out, "OPSGATE_ variables is valid; "+config.NoFileText) {
		t.Errorf("got %+v", got)
	}
	log, _ := serve(t, variables)
	awaitLine(t, log, "serving")
	if line := awaitLine(t, log, "no configuration file: serving with defaults, variables and flags"); line["why"] != config.NoFileText {
		t.Errorf("got %v", line)
	}
}

func TestHealthcheck(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		code   int
	}{
		{200, `{"status":"ready"}`, 0},
		{503, `{"status":"draining"}`, 1},
	} {
		address := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				t.Errorf("got %s", r.URL.Path)
			}
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.body))
		})
		// The gateway may run with an earlier configuration than the invalid file.
		for _, file := range []string{good, "upstreams: {fleet: {address: nowhere}}\nrate_limit: {limits: many}\n"} {
			for _, flag := range []string{"--admin-listen", "--admin"} {
				got := opsgate(t, nil, "healthcheck", "--config", write(t, file), flag, address)
				if got.code != test.code || !strings.Contains(got.out+got.err, test.body) {
					t.Errorf("%d by %s: got %+v", test.status, flag, got)
				}
			}
		}
	}
}

func TestServeLogsItsAddressesAndDrains(t *testing.T) {
	log, stop := serve(t, []string{"GOGC=100", "OPSGATE_LISTN=1"}, "--config", write(t, good), "--log-level", "debug")
	line := awaitLine(t, log, "serving")
	if !strings.HasPrefix(fmt.Sprint(line["listen"]), "127.0.0.1:") {
		t.Errorf("got %v", line)
	}
	got := opsgate(t, nil, "healthcheck", "--config", write(t, good), "--admin-listen", fmt.Sprint(line["admin_listen"]))
	if got.code != 1 || !strings.Contains(got.err, "not_ready") {
		t.Errorf("healthcheck: got %+v", got)
	}
	awaitLine(t, log, "configuration") // the warning
	stop()
	awaitLine(t, log, "stopped")
}

// awaitLine returns the first line of the log with the message.
func awaitLine(t *testing.T, log *testkit.Buffer, message string) (line map[string]any) {
	t.Helper()
	testkit.Eventually(t, "the log has the line "+message, func() bool {
		line = testkit.RecordIn(log.String(), message)
		return line != nil
	})
	return line
}
