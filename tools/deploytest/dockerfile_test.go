package deploytest

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"opsgate/backendclient/testkit"
)

// dockerfile is deploy/Dockerfile, as parsed by BuildKit.
type dockerfile struct {
	stages   []instructions.Stage
	warnings []string
}

func readDockerfile() (dockerfile, error) {
	content, err := os.Open(filepath.Join(root, "deploy", "Dockerfile"))
	if err != nil {
		return dockerfile{}, err
	}
	defer func() { _ = content.Close() }()
	tree, err := parser.Parse(content)
	if err != nil {
		return dockerfile{}, fmt.Errorf("parse the Dockerfile: %w", err)
	}
	var d dockerfile
	for _, w := range tree.Warnings {
		d.warnings = append(d.warnings, w.Short)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) {
		d.warnings = append(d.warnings, rule+": "+message)
	}})
	d.stages, _, err = instructions.Parse(tree.AST, lint)
	return d, err
}

// buildCommand returns the command that builds the programs.
func (d dockerfile) buildCommand() (string, error) {
	for _, command := range d.stages[0].Commands {
		if run, is := command.(*instructions.RunCommand); is && strings.Contains(run.CmdLine[0], "go build") {
			return run.CmdLine[0], nil
		}
	}
	return "", errors.New("the Dockerfile has no go build")
}

// commands returns the commands of one kind in a stage.
func commands[T any](stage instructions.Stage) (list []T) {
	for _, command := range stage.Commands {
		if one, is := command.(T); is {
			list = append(list, one)
		}
	}
	return list
}

func image(t *testing.T, name string) instructions.Stage {
	t.Helper()
	file, err := readDockerfile()
	testkit.Must(t, err)
	if len(file.warnings) > 0 {
		t.Errorf("BuildKit warns: %q", file.warnings)
	}
	i := slices.IndexFunc(file.stages, func(s instructions.Stage) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("there is no stage %s", name)
	}
	return file.stages[i]
}

func TestImages(t *testing.T) {
	for _, name := range []string{"opsgate", "opsbackend"} {
		t.Run(name, func(t *testing.T) {
			stage := image(t, name)
			if stage.BaseName != "scratch" {
				t.Errorf("the base image is %s", stage.BaseName)
			}
			user := commands[*instructions.UserCommand](stage)
			if len(user) != 1 || user[0].User != "65532:65532" {
				t.Errorf("the user is %v; Kubernetes can verify only a numeric user as non-root", user)
			}
			if n := len(commands[*instructions.RunCommand](stage)); n > 0 {
				t.Errorf("it has %d RUN commands, but no shell", n)
			}
			entry := commands[*instructions.EntrypointCommand](stage)
			if len(entry) != 1 || entry[0].PrependShell || !slices.Equal(entry[0].CmdLine, []string{"/" + name}) {
				t.Errorf("the entrypoint is %v", entry)
			}
			labels := map[string]string{}
			for _, l := range commands[*instructions.LabelCommand](stage) {
				for _, pair := range l.Labels {
					labels[strings.Trim(pair.Key, `"`)] = strings.Trim(pair.Value, `"`)
				}
			}
			for label, want := range map[string]string{
				"version": "${VERSION}", "revision": "${REVISION}", "created": "${BUILD_DATE}", "title": name,
			} {
				if got := labels["org.opencontainers.image."+label]; got != want {
					t.Errorf("label %s is %q", label, got)
				}
			}
		})
	}
}

func TestDefaultImageIsOpsgateWithHealthCheck(t *testing.T) {
	file, err := readDockerfile()
	testkit.Must(t, err)
	last := file.stages[len(file.stages)-1]
	if last.Name != "opsgate" {
		t.Errorf("the default target is %s", last.Name)
	}
	health := commands[*instructions.HealthCheckCommand](last)
	if len(health) != 1 || !slices.Equal(health[0].Health.Test, []string{"CMD", "/opsgate", "healthcheck"}) {
		t.Errorf("the health check is %+v", health)
	}
}

// The build image has the Go version of go.mod and is pinned.
func TestBuildImageIsPinned(t *testing.T) {
	file := read(t, filepath.Join(root, "deploy", "Dockerfile"))
	image := regexp.MustCompile(`(?m)^ARG GO_IMAGE=(\S+)$`).FindStringSubmatch(file)
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, filepath.Join(root, "go.mod")))
	if image == nil || version == nil || !pinned.MatchString(image[1]) || !strings.HasPrefix(image[1], "golang:"+version[1]+"-") {
		t.Errorf("the build image is %q, for Go %q", image, version)
	}
}

// The golang image has GOTOOLCHAIN=local, which ignores the toolchain of go.mod.
func TestImagesAreBuiltWithTheToolchainOfReleases(t *testing.T) {
	file, err := readDockerfile()
	testkit.Must(t, err)
	var toolchain string
	for _, env := range commands[*instructions.EnvCommand](file.stages[0]) {
		for _, pair := range env.Env {
			if pair.Key == "GOTOOLCHAIN" {
				toolchain = pair.Value
			}
		}
	}
	if toolchain != "auto" {
		t.Errorf("GOTOOLCHAIN is %q", toolchain)
	}
	released := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindStringSubmatch(read(t, filepath.Join(root, "go.mod")))
	if released == nil {
		t.Fatal("go.mod names no toolchain")
	}
	for _, name := range []string{"opsgate", "opsbackend"} {
		built, err := buildinfo.ReadFile(filepath.Join(programs, name))
		if err != nil || built.GoVersion != "go"+released[1] {
			t.Errorf("%s was built with %+v, %v; want %s", name, built, err, released[1])
		}
	}
}

// The build context contains all packages that the programs need.
func TestBuildContextIsComplete(t *testing.T) {
	ignored := read(t, filepath.Join(root, "deploy", "Dockerfile.dockerignore"))
	packages := inModule(t, nil, "list", "-deps", "-f", "{{if .Module}}{{.ImportPath}}{{end}}", "./cmd/opsgate", "./cmd/opsbackend")
	for _, path := range append(strings.Fields(packages), "opsgate/go.mod", "opsgate/go.sum", "opsgate/deploy/build-flags") {
		path, ours := strings.CutPrefix(path, "opsgate/")
		top, _, _ := strings.Cut(path, "/")
		if lines := strings.Split(ignored, "\n"); ours && !slices.Contains(lines, "!"+top) && !slices.Contains(lines, "!"+path) {
			t.Errorf("%s is not in the build context", top)
		}
	}
}
