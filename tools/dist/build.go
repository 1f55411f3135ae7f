package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// programs returns the released programs.
func programs() []string { return []string{"opsgate", "opsbackend", "opsdev", "opsctl"} }

// flagsFile has the flags with which programs are built everywhere: here, in the Dockerfile and by make build. Its tags leave out what no
// program uses: gin's MessagePack and gRPC's pages of traces.
const flagsFile = "deploy/build-flags"

// build builds the programs for a platform into a folder, without local paths in them. tags are added to those of flagsFile.
func (r release) build(ctx context.Context, p platform, out string, tags ...string) error {
	common, err := os.ReadFile(filepath.Join(r.source, filepath.FromSlash(flagsFile)))
	if err != nil {
		return err
	}
	version, err := r.toolchain()
	if err != nil {
		return err
	}
	const info = "opsgate/cmd/internal/kit/buildinfo"
	flags := fmt.Sprintf("-s -w -X %[1]s.version=%[2]s -X %[1]s.revision=%[3]s -X %[1]s.date=%[4]s",
		info, r.version, r.revision, r.date.Format(time.RFC3339))
	shared := strings.Fields(string(common))
	for i, flag := range shared {
		if strings.HasPrefix(flag, "-tags=") {
			shared[i] = strings.Join(append([]string{flag}, tags...), ",")
		}
	}
	args := slices.Concat([]string{"build"}, shared, []string{"-buildvcs=false", "-ldflags=" + flags, "-o", out + "/"})
	for _, name := range programs() {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = r.source, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOTOOLCHAIN="+version,
		"GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	return cmd.Run()
}

// toolchain returns the Go version that go.mod names for releases, for example go1.26.11. The go command fetches it if it is another one,
// whatever GOTOOLCHAIN is: the bytes of a release depend on the commit only.
func (r release) toolchain() (string, error) {
	file, err := os.ReadFile(filepath.Join(r.source, "go.mod"))
	if err != nil {
		return "", err
	}
	line := regexp.MustCompile(`(?m)^toolchain (go\S+)$`).FindSubmatch(file)
	if line == nil {
		return "", errors.New("go.mod has no toolchain line")
	}
	return string(line[1]), nil
}

// generatedFiles builds the programs for this machine, with the command that writes manual pages, and returns these and the completions.
func (r release) generatedFiles(ctx context.Context, work string) ([]entry, error) {
	host := platform{runtime.GOOS, runtime.GOARCH}
	dir := filepath.Join(work, host.os+"_"+host.arch)
	if err := r.build(ctx, host, dir, "manual"); err != nil {
		return nil, err
	}
	pages := filepath.Join(work, "man")
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return nil, err
	}
	var list []entry
	for _, name := range programs() {
		if err := exec.CommandContext(ctx, filepath.Join(dir, name), "man", pages).Run(); err != nil {
			return nil, fmt.Errorf("%s man: %w", name, err)
		}
		for shell, path := range map[string]string{
			"bash": "share/bash-completion/completions/" + name,
			"zsh":  "share/zsh/site-functions/_" + name,
			"fish": "share/fish/vendor_completions.d/" + name + ".fish",
		} {
			output, err := exec.CommandContext(ctx, filepath.Join(dir, name), "completion", shell).Output()
			if err != nil {
				return nil, fmt.Errorf("%s completion %s: %w", name, shell, err)
			}
			list = append(list, entry{path: path, content: output})
		}
	}
	manual, err := folder(pages)
	for _, page := range manual {
		list = append(list, entry{path: "share/man/man1/" + page.path, content: page.content})
	}
	return list, err
}

// documents returns the repository's files in an archive: files to install, rules and dashboards, and all targets of links in the README
// and docs.
func (r release) documents() ([]entry, error) {
	var list []entry
	for _, dir := range []string{"docs", "deploy/grafana", "deploy/prometheus", "gateway/apidocs/guides", "proto/ops"} {
		inner, err := folder(filepath.Join(r.source, filepath.FromSlash(dir)))
		if err != nil {
			return nil, err
		}
		for _, e := range inner {
			e.path = dir + "/" + e.path
			if dir == "docs" || !strings.HasSuffix(e.path, ".go") {
				list = append(list, e)
			}
		}
	}
	for _, file := range [][2]string{
		{"LICENSE", "LICENSE"},
		{"README.md", "README.md"},
		{"CHANGELOG.md", "CHANGELOG.md"},
		{"SECURITY.md", "SECURITY.md"},
		{"deploy/conformance-fixtures.yaml", "deploy/conformance-fixtures.yaml"},
		{"cmd/internal/backend/demo/lighthouse.yaml", "cmd/internal/backend/demo/lighthouse.yaml"}, // a document links to it
		{"deploy/helm/opsgate/README.md", "deploy/helm/opsgate/README.md"},
		{"deploy/opsgate.yaml", "deploy/opsgate.yaml"},
		{"deploy/opsgate.yaml", "etc/opsgate.yaml"},
		{"deploy/systemd/opsgate.service", "lib/systemd/system/opsgate.service"},
		{"deploy/systemd/opsgate.socket", "lib/systemd/system/opsgate.socket"},
		{"gateway/openapi/openapi.yaml", "gateway/openapi/openapi.yaml"},
	} {
		content, err := os.ReadFile(filepath.Join(r.source, filepath.FromSlash(file[0])))
		if err != nil {
			return nil, err
		}
		list = append(list, entry{path: file[1], content: content})
	}
	programs, err := r.clientPrograms()
	return append(list, programs...), err
}

// clientPrograms returns the programs to copy in tools/clients, without the packages that may be installed beside them.
func (r release) clientPrograms() ([]entry, error) {
	var list []entry
	for _, language := range []string{
		"go/*.go", "go/client/*.*", "java/*.java", "python/*.py", "python/opsgate_client/*.*", "typescript/*.ts", "typescript/opsgate-client/*.*",
	} {
		files, err := filepath.Glob(filepath.Join(r.source, "tools", "clients", filepath.FromSlash(language)))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			list = append(list, entry{path: "tools/clients/" + path.Dir(language) + "/" + filepath.Base(file), content: content})
		}
	}
	return list, nil
}

// makeArchive builds the programs of a platform in dir, and writes their archive, bill of materials and packages. It returns the names.
func (r release) makeArchive(ctx context.Context, p platform, dir string, generated []entry) ([]string, error) {
	if err := r.build(ctx, p, dir); err != nil {
		return nil, err
	}
	documents, err := r.documents()
	if err != nil {
		return nil, err
	}
	entries := slices.Concat(generated, documents)
	for _, name := range programs() {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{path: "bin/" + name, content: content, program: true})
	}
	name := fmt.Sprintf("opsgate_%s_%s_%s", r.version, p.os, p.arch)
	if err := r.archive(name+".tar.gz", name, entries); err != nil {
		return nil, err
	}
	bill, err := r.bill(p, dir)
	if err != nil {
		return nil, fmt.Errorf("the bill of materials: %w", err)
	}
	err = os.WriteFile(filepath.Join(r.out, name+".cdx.json"), bill, 0o644)
	packages, failure := r.makePackages(p, filepath.Join(dir, "files"), entries)
	return append(packages, name+".tar.gz", name+".cdx.json"), errors.Join(err, failure)
}

// makeChart writes the archive of the chart with its version.
func (r release) makeChart() (string, error) {
	dir := filepath.Join(r.source, "deploy", "helm", "opsgate")
	entries, err := folder(dir)
	if err != nil {
		return "", err
	}
	for i := range entries {
		if entries[i].path == "Chart.yaml" {
			for _, change := range [][2]string{
				{"\nversion: 0.0.0\n", "\nversion: " + chartVersion(r.version) + "\n"},
				{"\nappVersion: dev\n", "\nappVersion: \"" + r.version + "\"\n"},
				{"\nannotations: {}\n", fmt.Sprintf("\nannotations: {revision: %q, date: %q}\n", r.revision, r.date.Format(time.RFC3339))},
			} {
				if !bytes.Contains(entries[i].content, []byte(change[0])) {
					return "", fmt.Errorf("there is no line %q in Chart.yaml", strings.TrimSpace(change[0]))
				}
				entries[i].content = bytes.Replace(entries[i].content, []byte(change[0]), []byte(change[1]), 1)
			}
		}
	}
	name := "opsgate-chart_" + r.version + ".tgz"
	return name, r.archive(name, "opsgate", entries)
}

// chartVersion returns a semantic version, which Helm requires.
func chartVersion(version string) string {
	core, _, _ := strings.Cut(version, "-")
	if strings.Count(core, ".") == 2 {
		return version
	}
	return "0.0.0-" + strings.ReplaceAll(version, "_", "-")
}
