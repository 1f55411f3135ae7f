package commandline_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"opsgate/cmd/internal/kit/buildinfo"
	"opsgate/cmd/internal/kit/commandline"
)

// grammar has every kind of command, flag and argument that completion distinguishes.
type grammar struct {
	Verbose bool  `help:"Say more."`
	Serve   serve `cmd:"" help:"Serve: until the end."`
	Token   struct {
		Create create   `cmd:"" help:"Create a token."`
		List   struct{} `cmd:"" help:"List the tokens."`
	} `cmd:"" help:"Manage tokens."`
	Secret struct{} `cmd:"" hidden:"" help:"Hidden from users."`

	commandline.Commands
}

type serve struct {
	Config string   `placeholder:"FILE" help:"Read this."`
	Data   string   `placeholder:"DIR" env:"SAMPLE_DATA" help:"Keep it here."`
	Level  string   `enum:"debug,info,warn" default:"info" help:"How much to say."`
	Label  []string `placeholder:"WORD" help:"As often as you like."`
	Hidden bool     `hidden:""`
}

type create struct {
	Kind string `arg:"" enum:"live,test" help:".live is for \\people\\; 'test' is not."`
	Name string `required:"" help:"Its name."`
}

// asSample is the variable that makes the test binary run as the sample program.
const asSample = "COMMANDLINE_TEST_SAMPLE"

func TestMain(m *testing.M) {
	if os.Getenv(asSample) == "" {
		os.Exit(m.Run())
	}
	parsed := kong.Parse(new(grammar), kong.Name("sample"), kong.Description("A sample of a program. It does nothing."),
		kong.Bind(commandline.About{Build: buildinfo.Info{Version: "1.2.3", Date: "2026-01-31T12:00:00Z"}, Sections: []commandline.Section{
			{Title: "NOTES", Text: ".so what? C:\\x", Items: []commandline.Item{{Term: "--none", Text: "'tis nothing."}}},
		}}))
	parsed.FatalIfErrorf(parsed.Run())
}

// install returns a command whose PATH begins with a directory that holds the sample program.
func install(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("%s is needed: %v", program, err)
	default:
		t.Skipf("%s is not installed", program)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "sample")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = files(t)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), asSample+"=1", "HOME="+cmd.Dir)
	return cmd
}

// files returns a new directory with a file and a directory in it.
func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "that.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	problems := new(strings.Builder)
	cmd.Stderr = problems
	out, err := cmd.Output()
	if err != nil || problems.Len() > 0 {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, problems)
	}
	return string(out)
}

// sample runs the sample itself.
func sample(t *testing.T, args ...string) string {
	t.Helper()
	return output(t, install(t, "env", append([]string{"sample"}, args...)...))
}
