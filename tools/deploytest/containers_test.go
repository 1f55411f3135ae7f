package deploytest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// localImages is the registry in the names of images that only the test's Docker daemon has.
const localImages = "local.example"

// Both images are built from the Dockerfile and run: as docs/operate/install.md does with Docker, as the chart does, and as the compose
// file does.
func TestContainers(t *testing.T) {
	e := startEngine(t)
	e.goImage(t, localImages+"/go")
	system := e.composeSystem(t)
	e.sh(t, system.enter+"docker compose build")
	for _, name := range []string{"opsgate", "opsbackend"} {
		built := filepath.Join(t.TempDir(), name)
		e.sh(t, fmt.Sprintf(`id=$(docker create %[1]s:%[2]s) && docker cp "$id:/%[1]s" %[3]s && docker rm "$id"`, name, version, built))
		run(t, exec.CommandContext(t.Context(), "cmp", built, filepath.Join(programs, name))) // the build is reproducible
	}
	t.Run("gateway", e.testGateway)
	t.Run("check", e.testCheck)
	t.Run("compose", system.test)
}

// documented returns the commands of a section of docs/operate/install.md.
func documented(t *testing.T, section string) []string {
	t.Helper()
	_, text, _ := strings.Cut(read(t, filepath.Join(root, "docs", "operate", "install.md")), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	var commands []string
	for _, command := range regexp.MustCompile(`(?m)^\$ ((?:.*\\\n)*.*)$`).FindAllStringSubmatch(text, -1) {
		commands = append(commands, command[1])
	}
	if len(commands) == 0 {
		t.Fatalf("docs/operate/install.md has no commands in %q", section)
	}
	return commands
}

// documentedCommand returns the command of a section that contains a text.
func documentedCommand(t *testing.T, section, text string) string {
	t.Helper()
	commands := documented(t, section)
	i := slices.IndexFunc(commands, func(c string) bool { return strings.Contains(c, text) })
	if i < 0 {
		t.Fatalf("docs/operate/install.md has no command with %q in %q: %q", text, section, commands)
	}
	return commands[i]
}

// gatewayFolder returns a folder for /etc/opsgate with a configuration that needs no other service.
func gatewayFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	config := strings.NewReplacer("127.0.0.1:ADMIN", "127.0.0.1:9090", "listen: 127.0.0.1:0", "listen: :8080", "wait: 0s", "wait: 1s").Replace(standalone)
	write(t, filepath.Join(dir, "opsgate.yaml"), config)
	readable(t, dir)
	return dir
}

// The documented docker run starts a gateway without any privilege, which becomes healthy, serves, drains and exits with 0.
func (e *dockerEngine) testGateway(t *testing.T) {
	dir := gatewayFolder(t)
	place := strings.NewReplacer("/etc/opsgate:/", dir+":/", "opsgate:VERSION", "opsgate:"+version).Replace
	const section = "With Docker"
	e.sh(t, place(documentedCommand(t, section, "docker run")))
	defer func() {
		if t.Failed() {
			t.Log(e.sh(t, "docker logs opsgate 2>&1"))
		}
	}()
	e.checkUnprivileged(t, "opsgate")
	inspect := documentedCommand(t, section, "docker inspect")
	testkit.Eventually(t, "the gateway is healthy", func() bool { return e.sh(t, inspect) == "healthy" })
	if got := e.get(t, "http://127.0.0.1:8080/openapi.json", "").status; got != http.StatusOK {
		t.Errorf("GET /openapi.json: %d", got)
	}
	if out, err := e.command(t.Context(), "docker exec opsgate /bin/sh -c true").CombinedOutput(); err == nil {
		t.Errorf("the image has a shell: %s", out)
	}

	e.sh(t, "docker stop opsgate") // SIGTERM, and SIGKILL (exit code 137) after the --stop-timeout
	if got := e.sh(t, "docker inspect --format '{{.State.ExitCode}} {{.State.OOMKilled}}' opsgate"); got != "0 false" {
		t.Errorf("stopped with %s", got)
	}
	if log := e.sh(t, "docker logs opsgate 2>&1"); !strings.Contains(log, `"draining"`) || !strings.Contains(log, `"stopped"`) {
		t.Errorf("it did not drain:\n%s", log)
	}
	if changed := e.sh(t, "docker diff opsgate"); strings.Trim(changed, "ACD /etcopsga\n") != "" {
		t.Errorf("it has changed files:\n%s", changed)
	}
}

// checkUnprivileged checks the user, the capabilities and the mounts of a container's process in /proc.
func (e *dockerEngine) checkUnprivileged(t *testing.T, container string) {
	t.Helper()
	proc := "/proc/" + e.sh(t, "docker inspect --format '{{.State.Pid}}' "+container)
	status := read(t, proc+"/status")
	for _, line := range []string{
		"Uid:\t65532\t65532\t65532\t65532", "Gid:\t65532\t65532\t65532\t65532", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
		"NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(status, line+"\n") {
			t.Errorf("%s has no line %q:\n%s", container, line, status)
		}
	}
	if mounts := read(t, proc+"/mountinfo"); !regexp.MustCompile(`(?m)^\d+ \d+ \S+ / / ro,`).MatchString(mounts) {
		t.Errorf("the root of %s is not read-only:\n%s", container, mounts)
	}
}

// As the chart's Job: opsgate check with the image and the file that are to be rolled out.
func (e *dockerEngine) testCheck(t *testing.T) {
	dir := gatewayFolder(t)
	check := fmt.Sprintf("docker run --rm --read-only --cap-drop ALL --security-opt no-new-privileges --network none --volume %s:/etc/opsgate:ro "+
		"opsgate:%s check --config /etc/opsgate/opsgate.yaml", dir, version)
	e.sh(t, check)
	path := filepath.Join(dir, "opsgate.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(read(t, path)+"nonsense: 1\n"), 0o600))
	out, err := e.command(t.Context(), check+" 2>&1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "nonsense") {
		t.Errorf("an unknown key: %v\n%s", err, out)
	}
}
