package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"opsgate/backendclient/testkit"
)

var (
	repository = absolute("../../../..")
	sources    = repository + "/tools/clients" // of the packages, and of the programs that use generated clients
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

// generateGo adds the generated code to the package ops by an overlay: it is not in the working copy.
func generateGo(t *testing.T, document, dir string) []string {
	t.Helper()
	generated, overlay := filepath.Join(dir, "ops.gen.go"), filepath.Join(dir, "overlay.json")
	run(t, sources, nil, "go", "tool", "-modfile="+repository+"/tools/go.mod", "oapi-codegen",
		"-generate=types,client,skip-prune", "-package=ops", "-o="+generated, document)
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{sources + "/go/ops/ops.gen.go": generated}})
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(overlay, replace, 0o600))
	program := filepath.Join(dir, "program")
	run(t, sources, nil, "go", "vet", "-tags=generated", "-overlay="+overlay, "./go")
	run(t, sources, nil, "go", "build", "-tags=generated", "-overlay="+overlay, "-o="+program, "./go")
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
		copyFile(t, sources+"/typescript/"+name, dir)
	}
	testkit.Must(t, os.CopyFS(filepath.Join(dir, "opsgate-client"), os.DirFS(sources+"/typescript/opsgate-client")))
	testkit.Must(t, os.Symlink(nodeModules, filepath.Join(dir, "node_modules")))
}

func generatePython(t *testing.T, document, dir string) []string {
	t.Helper()
	path := []string{"PATH=" + filepath.Dir(ruff) + string(os.PathListSeparator) + os.Getenv("PATH")} // the generator runs ruff
	run(t, dir, path, pythonGenerator, "generate", "--path", document, "--output-path", "ops", "--meta", "none", "--fail-on-warning")
	for _, name := range []string{"scenario.py", "ruff.toml"} {
		copyFile(t, sources+"/python/"+name, dir)
	}
	testkit.Must(t, os.CopyFS(filepath.Join(dir, "opsgate_client"), os.DirFS(sources+"/python/opsgate_client")))
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
	var files []string
	err := filepath.WalkDir(filepath.Join(dir, "generated", "src", "main", "java"), func(path string, _ os.DirEntry, err error) error {
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

func copyFile(t *testing.T, from, dir string) {
	t.Helper()
	data, err := os.ReadFile(from)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, filepath.Base(from)), data, 0o600))
}
