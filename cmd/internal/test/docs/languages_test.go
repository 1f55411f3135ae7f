package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

// npm is the folder with the packages of npm.
const npm = repository + "/tools/npm/node_modules"

// python is the interpreter that has the packages of PyPI.
const python = repository + "/clients/python/.venv/bin/python"

// A toolchain builds samples, by the name of each, in a directory, and returns the command that
// runs the sample with a name.
type toolchain struct {
	programs []string // that it needs
	compiles bool
	build    func(t *testing.T, dir string, code map[string]string) (command func(name string) []string)
}

// toolchains returns the toolchain of each language. Each builds all samples at once, because
// compilers start slowly.
func toolchains() map[string]toolchain {
	return map[string]toolchain{
		"curl":       {[]string{"sh", "curl", "openssl"}, false, interpreted("sh", "sh")},
		"python":     {[]string{"python3"}, false, interpreted("python3", "py")},
		"typescript": {[]string{"node"}, true, buildTypeScript},
		"go":         {[]string{"go"}, true, buildGo},
		"java":       {[]string{"java", "javac"}, true, buildJava},
	}
}

func interpreted(program, extension string) func(*testing.T, string, map[string]string) func(string) []string {
	return func(t *testing.T, dir string, code map[string]string) func(string) []string {
		t.Helper()
		path := func(name string) string { return filepath.Join(dir, name+"."+extension) }
		for name, text := range code {
			write(t, path(name), text)
		}
		return func(name string) []string { return []string{program, path(name)} }
	}
}

func buildTypeScript(t *testing.T, dir string, code map[string]string) func(string) []string {
	t.Helper()
	compiler := testkit.Find(t, npm+"/typescript/bin/tsc")
	// The types of Node.js, as far as samples use them.
	write(t, filepath.Join(dir, "node.d.ts"), "declare const process: { env: Record<string, string | undefined> };\n")
	arguments := []string{compiler, "--strict", "--target", "es2023", "--lib", "es2023,dom", "--module", "nodenext", "--outDir", "out", "node.d.ts"}
	for name, text := range code {
		write(t, filepath.Join(dir, name+".mts"), text)
		arguments = append(arguments, name+".mts")
	}
	run(t, dir, "node", arguments...)
	return func(name string) []string { return []string{"node", filepath.Join(dir, "out", name+".mjs")} }
}

func buildGo(t *testing.T, dir string, code map[string]string) func(string) []string {
	t.Helper()
	write(t, filepath.Join(dir, "go.mod"), "module samples\n")
	for name, text := range code {
		write(t, filepath.Join(dir, name, "main.go"), text)
	}
	run(t, dir, "go", "build", "-o", "bin/", "./...")
	return func(name string) []string { return []string{filepath.Join(dir, "bin", name)} }
}

func buildJava(t *testing.T, dir string, code map[string]string) func(string) []string {
	t.Helper()
	arguments := []string{"--release", "17", "-Xlint:all", "-Werror", "-d", "out"}
	class := func(name string) string { return "Sample_" + name }
	for name, text := range code {
		write(t, filepath.Join(dir, class(name)+".java"), strings.Replace(text, "class Sample ", "class "+class(name)+" ", 1))
		arguments = append(arguments, class(name)+".java")
	}
	run(t, dir, "javac", arguments...)
	return func(name string) []string {
		return []string{"java", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(dir, "out"), class(name)} // compile less: it runs once
	}
}

func run(t *testing.T, dir, program string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Dir, command.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	testkit.Output(t, command)
}

// runIn runs a command in dir with these variables added to the environment. It returns what the
// command prints.
func runIn(t *testing.T, dir string, variables []string, command ...string) (out, stderr string, err error) {
	t.Helper()
	var output, problems strings.Builder
	c := exec.CommandContext(t.Context(), command[0], command[1:]...)
	c.Dir, c.Env, c.Stdout, c.Stderr = dir, append(os.Environ(), variables...), &output, &problems
	err = c.Run()
	return output.String(), problems.String(), err
}
