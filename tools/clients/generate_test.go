package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Where make test-packages installs packages.
var (
	nodeModules       = absolute("../npm/node_modules")
	tsc               = absolute("../npm/node_modules/.bin/tsc")
	tsx               = absolute("../npm/node_modules/.bin/tsx")
	openAPITypeScript = absolute("../npm/node_modules/.bin/openapi-typescript")
	heyAPI            = absolute("../npm/node_modules/.bin/openapi-ts")

	python          = absolute("python/.venv/bin/python")
	pythonGenerator = absolute("python/.venv/bin/openapi-python-client")
	ruff            = absolute("python/.venv/bin/ruff")

	javaGenerator = absolute("java/lib/generator/openapi-generator-cli.jar")
	javaLibraries = absolute("java/lib/client")
)

func absolute(path string) string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return absolute
}

// must ends a test that got an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a program in a directory with more variables, and returns its output.
func run(t *testing.T, dir string, variables []string, argv ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), variables...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", argv, err, stdout, stderr.String())
	}
	return stdout
}

// generateGo adds the generated code to the package ops by an overlay: it is not in the working copy.
func generateGo(t *testing.T, document, dir string) []string {
	t.Helper()
	generated, overlay := filepath.Join(dir, "ops.gen.go"), filepath.Join(dir, "overlay.json")
	run(t, ".", nil, "go", "tool", "-modfile="+absolute("../go.mod"), "oapi-codegen",
		"-generate=types,client,skip-prune", "-package=ops", "-o="+generated, document)
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{absolute("go/ops/ops.gen.go"): generated}})
	must(t, err)
	must(t, os.WriteFile(overlay, replace, 0o600))
	program := filepath.Join(dir, "program")
	run(t, ".", nil, "go", "vet", "-tags=generated", "-overlay="+overlay, "./go")
	run(t, ".", nil, "go", "build", "-tags=generated", "-overlay="+overlay, "-o="+program, "./go")
	return []string{program}
}

func generateFetch(t *testing.T, document, dir string) []string {
	t.Helper()
	prepareTypeScript(t, dir, "fetch.ts")
	run(t, dir, nil, openAPITypeScript, document, "--output", "api.d.ts")
	run(t, dir, nil, tsc, "--project", ".")
	return []string{tsx, "fetch.ts"}
}

func generateHey(t *testing.T, document, dir string) []string {
	t.Helper()
	prepareTypeScript(t, dir, "hey.ts")
	run(t, dir, nil, heyAPI, "--input", document, "--output", "ops", "--client", "@hey-api/client-fetch", "--no-log-file")
	run(t, dir, nil, tsc, "--project", ".")
	return []string{tsx, "hey.ts"}
}

// prepareTypeScript copies a program, whose imports are resolved in node_modules beside it.
func prepareTypeScript(t *testing.T, dir, program string) {
	t.Helper()
	for _, name := range []string{program, "pages.ts", "package.json", "tsconfig.json"} {
		copyFile(t, filepath.Join("typescript", name), dir)
	}
	must(t, os.CopyFS(filepath.Join(dir, "opsgate-client"), os.DirFS("typescript/opsgate-client")))
	must(t, os.Symlink(nodeModules, filepath.Join(dir, "node_modules")))
}

func generatePython(t *testing.T, document, dir string) []string {
	t.Helper()
	path := []string{"PATH=" + filepath.Dir(ruff) + string(os.PathListSeparator) + os.Getenv("PATH")} // the generator runs ruff
	run(t, dir, path, pythonGenerator, "generate", "--path", document, "--output-path", "ops", "--meta", "none", "--fail-on-warning")
	for _, name := range []string{"scenario.py", "ruff.toml"} {
		copyFile(t, filepath.Join("python", name), dir)
	}
	must(t, os.CopyFS(filepath.Join(dir, "opsgate_client"), os.DirFS("python/opsgate_client")))
	run(t, dir, nil, ruff, "check", "scenario.py", "opsgate_client")
	run(t, dir, nil, ruff, "format", "--check", "--exclude=operations.py", "scenario.py", "opsgate_client")
	return []string{python, "scenario.py"}
}

func generateJava(t *testing.T, document, dir string) []string {
	t.Helper()
	run(t, dir, nil, "java", "-jar", javaGenerator, "generate", "--input-spec", document, "--generator-name", "java", "--library", "native",
		"--output", "generated", "--invoker-package", "ops", "--api-package", "ops.api", "--model-package", "ops.model",
		"--global-property", "apis,models,supportingFiles,apiDocs=false,modelDocs=false,apiTests=false,modelTests=false",
		"--additional-properties", "openApiNullable=false,hideGenerationTimestamp=true")
	var sources []string
	err := filepath.WalkDir(filepath.Join(dir, "generated", "src", "main", "java"), func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".java" {
			sources = append(sources, path)
		}
		return err
	})
	must(t, err)
	libraries := filepath.Join(javaLibraries, "*")
	run(t, dir, nil, append([]string{"javac", "-nowarn", "-d", "classes", "-cp", libraries}, sources...)...)
	classPath := libraries + string(os.PathListSeparator) + filepath.Join(dir, "classes")
	run(t, dir, nil, "javac", "-Xlint:all", "-Werror", "-d", "classes", "-cp", classPath,
		absolute("java/Scenario.java"), absolute("java/Retry.java"))
	return []string{"java", "-cp", classPath, "Scenario"}
}

func copyFile(t *testing.T, from, dir string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, filepath.Base(from)), data, 0o600))
}
