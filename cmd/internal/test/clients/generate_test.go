package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

var (
	repository = absolute("../../../..")
	sources    = repository + "/clients" // of the packages, and of the programs that use generated clients
)

// Where make test-packages installs packages.
var (
	nodeModules       = repository + "/tools/npm/node_modules"
	tsc               = nodeModules + "/.bin/tsc"
	tsx               = nodeModules + "/.bin/tsx"
	openAPITypeScript = nodeModules + "/.bin/openapi-typescript"
	heyAPI            = nodeModules + "/.bin/openapi-ts"

	python          = sources + "/python/.venv/bin/python"
	pythonGenerator = sources + "/python/.venv/bin/openapi-python-client"
	ruff            = sources + "/python/.venv/bin/ruff"

	javaGenerator = sources + "/java/lib/generator/openapi-generator-cli.jar"
	javaLibraries = sources + "/java/lib/client"
)

func absolute(path string) string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return absolute
}

// run runs a program in a directory with more variables, and returns its output.
func run(t *testing.T, dir string, variables []string, argv ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	command.Dir, command.Env = dir, append(os.Environ(), variables...)
	return []byte(testkit.Output(t, command))
}

// guideCommands returns the commands of a block below a heading of the guide. The guide has
// https://api.example.com for the API.
func guideCommands(t *testing.T, heading string, block int) (commands []string) {
	t.Helper()
	guide, err := os.ReadFile(repository + "/gateway/apidocs/guides/generated-clients.md")
	testkit.Must(t, err)
	_, section, found := strings.Cut(string(guide), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n##")
	blocks := regexp.MustCompile("(?ms)^```\n(\\$ .*?)\n```$").FindAllStringSubmatch(section, -1)
	if !found || len(blocks) <= block {
		t.Fatalf("the guide has %d blocks of commands below %q", len(blocks), heading)
	}
	for _, line := range regexp.MustCompile(`(?m)^\$ `).Split(blocks[block][1], -1)[1:] {
		commands = append(commands, strings.ReplaceAll(line, "\\\n", ""))
	}
	return commands
}

// follow runs the commands of the guide, word for word, but does not install from the network: what
// make test-packages has installed has the versions that the guide names.
func follow(t *testing.T, dir string, variables []string, heading string, block int) {
	t.Helper()
	var script strings.Builder
	for _, command := range guideCommands(t, heading, block) {
		for part := range strings.SplitSeq(strings.TrimSpace(command), " && ") {
			if !isInstalled(t, part) {
				script.WriteString(part + "\n")
			}
		}
	}
	run(t, dir, variables, "bash", "-euc", script.String())
}

// isInstalled reports whether a command installs from a package registry, and checks that it names
// the versions that are installed.
func isInstalled(t *testing.T, command string) bool {
	t.Helper()
	packages, ok := strings.CutPrefix(command, "npm install ")
	form := `^(.+)@([0-9.]+)$`
	if !ok {
		packages, ok = strings.CutPrefix(command, "pip install ")
		form = `^(.+)==([0-9.]+)$`
	}
	if !ok {
		packages, ok = strings.CutPrefix(command, "go get ")
		form = `^(.+?)(?:/cmd/[^/]+)?@(v[0-9.]+)$`
	}
	if !ok || strings.Contains(packages, "./") {
		return false
	}
	for name := range strings.FieldsSeq(strings.NewReplacer("--save-dev ", "", "-tool ", "").Replace(packages)) {
		if pin := regexp.MustCompile(form).FindStringSubmatch(name); len(pin) == 0 || !slices.Contains(pins(t), pin[1]+" "+pin[2]) {
			t.Errorf("%s: the programs are not tested with %s", command, name)
		}
	}
	return true
}

// The guides install what their programs are tested with.
func TestGuidesInstallTestedVersions(t *testing.T) {
	files, err := filepath.Glob(repository + "/gateway/apidocs/guides/*.md")
	testkit.Must(t, err)
	installs := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		for _, command := range regexp.MustCompile("(npm|pip) install [^`\n&]+|go get [^`\n&]+").FindAllString(string(text), -1) {
			if isInstalled(t, strings.TrimSpace(command)) {
				installs++
			}
		}
	}
	if installs < 8 {
		t.Errorf("found %d commands that install", installs)
	}
}

// pins returns the names and versions of what make test-packages installs, and of modules.
func pins(t *testing.T) (list []string) {
	t.Helper()
	for file, form := range map[string]string{
		"tools/npm/package.json":          `"([^"]+)": "([0-9.]+)"`,
		"clients/python/requirements.txt": `(?m)^([\w-]+)==([0-9.]+)$`,
		"tools/go.mod":                    `(?m)^\s(\S+) (v[0-9.]+)`,
		"go.mod":                          `(?m)^\s(\S+) (v[0-9.]+)`,
	} {
		text, err := os.ReadFile(repository + "/" + file)
		testkit.Must(t, err)
		for _, pin := range regexp.MustCompile(form).FindAllStringSubmatch(string(text), -1) {
			list = append(list, pin[1]+" "+pin[2])
		}
	}
	return list
}

// generateGo adds the generated code to the package ops by an overlay: it is not in the working
// copy.
func generateGo(t *testing.T, dir string) []string {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example\n"), 0o600))
	follow(t, dir, []string{"GOFLAGS=-modfile=" + repository + "/tools/go.mod"}, "### Go", 0)
	overlay := filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{sources + "/go/ops/ops.gen.go": filepath.Join(dir, "ops", "ops.gen.go")}})
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(overlay, replace, 0o600))
	program := filepath.Join(dir, "program")
	run(t, sources+"/go", nil, "go", "vet", "-tags=generated", "-overlay="+overlay, ".")
	run(t, sources+"/go", nil, "go", "build", "-tags=generated", "-overlay="+overlay, "-o="+program, ".")
	return []string{program}
}

func generateFetch(t *testing.T, dir string) []string {
	t.Helper()
	prepareTypeScript(t, dir, "fetch.ts")
	follow(t, dir, nil, "### TypeScript", 0)
	run(t, dir, nil, tsc, "--project", ".")
	return []string{tsx, "fetch.ts"}
}

func generateHey(t *testing.T, dir string) []string {
	t.Helper()
	prepareTypeScript(t, dir, "hey.ts")
	follow(t, dir, nil, "### TypeScript", 1)
	run(t, dir, nil, tsc, "--project", ".")
	return []string{tsx, "hey.ts"}
}

// prepareTypeScript copies a program, whose imports are resolved in node_modules beside it.
func prepareTypeScript(t *testing.T, dir, program string) {
	t.Helper()
	for _, name := range []string{program, "pages.ts", "package.json", "tsconfig.json"} {
		copyFile(t, sources+"/typescript/"+name, dir)
	}
	testkit.Must(t, os.CopyFS(filepath.Join(dir, "opsgate-client"), os.DirFS(sources+"/typescript/opsgate-client")))
	testkit.Must(t, os.Symlink(nodeModules, filepath.Join(dir, "node_modules")))
}

func generatePython(t *testing.T, dir string) []string {
	t.Helper()
	path := []string{"PATH=" + filepath.Dir(ruff) + string(os.PathListSeparator) + os.Getenv("PATH")} // the generator runs ruff
	follow(t, dir, path, "### Python", 0)
	for _, name := range []string{"scenario.py", "ruff.toml"} {
		copyFile(t, sources+"/python/"+name, dir)
	}
	testkit.Must(t, os.CopyFS(filepath.Join(dir, "opsgate_client"), os.DirFS(sources+"/python/opsgate_client")))
	run(t, dir, nil, ruff, "check", "scenario.py", "opsgate_client")
	run(t, dir, nil, ruff, "format", "--check", "--exclude=operations.py", "scenario.py", "opsgate_client")
	return []string{python, "scenario.py"}
}

func generateJava(t *testing.T, dir string) []string {
	t.Helper()
	testkit.Must(t, os.Symlink(javaGenerator, filepath.Join(dir, filepath.Base(javaGenerator))))
	follow(t, dir, nil, "### Java", 0)
	var files []string
	err := filepath.WalkDir(filepath.Join(dir, "client", "src", "main", "java"), func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".java" {
			files = append(files, path)
		}
		return err
	})
	testkit.Must(t, err)
	libraries := filepath.Join(javaLibraries, "*")
	run(t, dir, nil, append([]string{"javac", "-nowarn", "-d", "classes", "-cp", libraries}, files...)...)
	classPath := libraries + string(os.PathListSeparator) + filepath.Join(dir, "classes")
	run(t, dir, nil, "javac", "-Xlint:all", "-Werror", "-d", "classes", "-cp", classPath,
		sources+"/java/Scenario.java", sources+"/java/Retry.java")
	return []string{"java", "-cp", classPath, "Scenario"}
}

// What openapi-generator writes in Go, which is in many teams' builds, compiles. It names what
// other generators do not.
func TestOpenAPIGeneratorInGoCompiles(t *testing.T) {
	testkit.SkipIfShort(t)
	testkit.Find(t, "java")
	dir := t.TempDir()
	run(t, dir, nil, "java", "-jar", testkit.Find(t, javaGenerator), "generate", "--generator-name", "go", "--output", ".",
		"--input-spec", repository+"/gateway/openapi/openapi.yaml")
	run(t, dir, []string{"GOPROXY=off", "GOFLAGS=-mod=mod"}, "go", "vet", ".")
}

func copyFile(t *testing.T, from, dir string) {
	t.Helper()
	data, err := os.ReadFile(from)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, filepath.Base(from)), data, 0o600))
}
