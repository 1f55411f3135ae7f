package deploytest

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"opsgate/internal/testkit"
)

// root is the root of the repository.
const root = "../../.."

// programs is the folder of opsgate and opsbackend.
var programs string

func TestMain(m *testing.M) {
	os.Exit(testkit.RunBuilt(build, func(dir string) int {
		programs = dir
		return m.Run()
	}))
}

// build builds the programs with the flags of releases: then the build cache has most of them,
// because other tests use these flags.
func build(dir string) error {
	command := exec.Command("sh", "-c", `CGO_ENABLED=0 go build $(cat deploy/build-flags) -buildvcs=false -ldflags="-s -w" -o "$0/" ./cmd/opsgate ./cmd/opsbackend`, dir)
	command.Dir, command.Stderr = root, os.Stderr
	return command.Run()
}

// The programs run in an image without libraries.
func TestProgramsAreStaticAndSmall(t *testing.T) {
	for name, bytes := range map[string]int64{"opsgate": 22_800_000, "opsbackend": 26_000_000} {
		path := filepath.Join(programs, name)
		file, err := elf.Open(path)
		testkit.Must(t, err)
		if libraries, err := file.ImportedLibraries(); len(libraries) > 0 || err != nil {
			t.Errorf("%s needs %q, %v", name, libraries, err)
		}
		info, err := os.Stat(path)
		testkit.Must(t, errors.Join(err, file.Close()))
		if info.Size() > bytes+bytes/10 {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
		run(t, exec.CommandContext(t.Context(), path, "version"))
	}
}

// start starts a program of the repository, and returns its record of the addresses that it serves.
func start(t *testing.T, program string, args ...string) (*testkit.Process, map[string]any) {
	t.Helper()
	p := testkit.Start(t, exec.Command(filepath.Join(programs, program), append([]string{"serve"}, args...)...))
	return p, p.MustRecord(t, "serving")
}

// run runs a command and returns its output.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	testkit.Must(t, err)
	return string(content)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
}

// paths returns the paths in deploy that match a pattern. It fails the test without a match.
func paths(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(root, "deploy", pattern))
	testkit.Must(t, err)
	if len(list) == 0 {
		t.Fatalf("there is no %s", pattern)
	}
	return list
}
