package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
)

const (
	root     = "../.."
	revision = "0123456789abcdef0123456789abcdef01234567"
)

// copies copies the tracked and untracked files into two folders.
func copies(t *testing.T) (first, second string) {
	t.Helper()
	first, second = t.TempDir(), filepath.Join(t.TempDir(), "somewhere", "else")
	testkit.Must(t, os.MkdirAll(second, 0o700))
	const copyAll = `cd "$0"
		git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - | tar -xf - -C "$1"
		cp -R "$1/." "$2"`
	if out, err := exec.CommandContext(t.Context(), "sh", "-ec", copyAll, root, first, second).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return first, second
}

// dist builds a release for this platform and returns its folder and files.
func dist(t *testing.T, source string, args ...string) (out string, made map[string][]byte) {
	t.Helper()
	out, made = t.TempDir(), map[string][]byte{}
	err := run(t.Context(), append([]string{
		"-source", source, "-out", out, "-platforms", runtime.GOOS + "/" + runtime.GOARCH,
		"-version", "v1.2.3", "-revision", revision, "-date", "2026-01-31T12:00:00+02:00",
	}, args...), io.Discard)
	testkit.Must(t, err)
	list, err := os.ReadDir(out)
	testkit.Must(t, err)
	for _, file := range list {
		made[file.Name()], err = os.ReadFile(filepath.Join(out, file.Name()))
		testkit.Must(t, err)
	}
	return out, made
}

func TestBuildsAreReproducible(t *testing.T) {
	here, there := copies(t)
	key, path := newKey(t)
	dir, first := dist(t, here)
	signed, second := dist(t, there, "-key", path)
	files := 8
	if runtime.GOOS == "linux" {
		files += 2 * len(packages)
	}
	if len(first) != files || len(second) != files+2 { // the signatures
		t.Fatalf("made %d and %d files", len(first), len(second))
	}
	checkSignatures(t, key, signed, second)
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs", name)
		}
	}
	const name = "opsgate_1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH
	unpacked := checkArchive(t, name, first[name+".tar.gz"])
	checkPrograms(t, filepath.Join(unpacked, name))
	checkLinks(t, filepath.Join(unpacked, name))
	checkChart(t, first["opsgate-chart_1.2.3.tgz"])
	checkBill(t, first[name+".cdx.json"])
	checkProvenance(t, first, name)
	checkSums(t, dir, len(first))
	if runtime.GOOS == "linux" {
		checkPackages(t, dir)
	}
}

// unpack extracts an archive and returns the folder and the headers.
func unpack(t *testing.T, content []byte) (dir string, headers []*tar.Header) {
	t.Helper()
	packed, err := gzip.NewReader(bytes.NewReader(content))
	testkit.Must(t, err)
	dir = t.TempDir()
	for all := tar.NewReader(packed); ; {
		header, err := all.Next()
		if errors.Is(err, io.EOF) {
			return dir, headers
		}
		testkit.Must(t, err)
		headers = append(headers, header)
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, header.FileInfo().Mode())
		testkit.Must(t, err)
		_, err = io.Copy(file, all)
		testkit.Must(t, errors.Join(err, file.Close()))
	}
}

func checkArchive(t *testing.T, name string, content []byte) (dir string) {
	t.Helper()
	dir, headers := unpack(t, content)
	var paths []string
	for _, h := range headers {
		path, under := strings.CutPrefix(h.Name, name+"/")
		paths = append(paths, path)
		want := int64(0o644)
		if strings.HasPrefix(path, "bin/") {
			want = 0o755
		}
		at := time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)
		if !under || h.Mode != want || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(at) {
			t.Errorf("got %+v", h)
		}
	}
	if !slices.IsSorted(paths) {
		t.Errorf("not in order: %q", paths)
	}
	for _, want := range []string{
		"LICENSE", "README.md", "etc/opsgate.yaml", "lib/systemd/system/opsgate.service",
		"lib/systemd/system/opsgate.socket", "bin/opsgate", "bin/opsbackend", "bin/opsdev", "bin/opsctl",
		"share/man/man1/opsgate.1", "share/man/man1/opsgate-serve.1", "share/bash-completion/completions/opsgate", "share/zsh/site-functions/_opsgate",
		"share/fish/vendor_completions.d/opsgate.fish", "deploy/prometheus/rules/gateways.yaml", "deploy/grafana/dashboards/opsgate-overview.json",
	} {
		if !slices.Contains(paths, want) {
			t.Errorf("there is no %s in %q", want, paths)
		}
	}
	return dir
}

func checkPrograms(t *testing.T, dir string) {
	t.Helper()
	for _, name := range programs() {
		output, err := exec.CommandContext(t.Context(), filepath.Join(dir, "bin", name), "version").Output()
		want := name + " 1.2.3\nrevision: " + revision + "\ndate: 2026-01-31T10:00:00Z\n"
		if err != nil || !strings.HasPrefix(string(output), want) {
			t.Errorf("%s: %v, %s", name, err, output)
		}
	}
	checkManual(t, filepath.Join(dir, "share", "man", "man1"))
}

// checkLinks checks that the links of the README and docs resolve inside an archive.
func checkLinks(t *testing.T, dir string) {
	t.Helper()
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	seen := 0
	for _, pattern := range []string{"README.md", "SECURITY.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(dir, pattern))
		testkit.Must(t, err)
		for _, page := range pages {
			content, err := os.ReadFile(page)
			testkit.Must(t, err)
			for _, found := range link.FindAllStringSubmatch(string(content), -1) {
				if strings.Contains(found[1], "://") {
					continue
				}
				seen++
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), found[1])); err != nil {
					t.Errorf("%s: there is no %s", filepath.Base(page), found[1])
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("followed %d links", seen)
	}
}

// checkManual renders the manual pages of a folder.
func checkManual(t *testing.T, dir string) {
	t.Helper()
	t.Run("groff", func(t *testing.T) {
		program := testkit.Find(t, "groff")
		pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
		if err != nil || len(pages) < 20 {
			t.Errorf("%d manual pages, %v", len(pages), err)
		}
		for _, page := range pages {
			cmd := exec.CommandContext(t.Context(), program, "-man", "-Tutf8", "-Wall", "-ww", page)
			problems := new(bytes.Buffer)
			cmd.Stderr = problems
			if text, err := cmd.Output(); err != nil || problems.Len() > 0 || !bytes.Contains(text, []byte("1.2.3")) {
				t.Errorf("%v\n%s", err, problems)
			}
		}
	})
}

func checkChart(t *testing.T, content []byte) {
	t.Helper()
	dir, headers := unpack(t, content)
	chart, err := os.ReadFile(filepath.Join(dir, "opsgate", "Chart.yaml"))
	testkit.Must(t, err)
	for _, want := range []string{
		"\nversion: 1.2.3\n", "\nappVersion: \"1.2.3\"\n", "\nannotations: {revision: \"" + revision + "\", date: \"2026-01-31T10:00:00Z\"}\n",
	} {
		if !strings.Contains(string(chart), want) {
			t.Errorf("there is no %q in\n%s", want, chart)
		}
	}
	for _, want := range []string{"opsgate/templates/deployment.yaml", "opsgate/values.schema.json", "opsgate/files/restart-keys.yaml", "opsgate/.helmignore"} {
		if !slices.ContainsFunc(headers, func(h *tar.Header) bool { return h.Name == want }) {
			t.Errorf("there is no %s", want)
		}
	}
}

func checkBill(t *testing.T, content []byte) {
	t.Helper()
	var bill document
	testkit.Must(t, json.Unmarshal(content, &bill))
	known := map[string]bool{bill.Metadata.Component.Ref: true}
	for _, c := range bill.Components {
		if known[c.Ref] {
			t.Errorf("component %s is listed twice", c.Ref)
		}
		known[c.Ref] = true
		if c.Version == "" || c.Type == "library" != strings.HasPrefix(c.PURL, "pkg:golang/") {
			t.Errorf("got %+v", c)
		}
	}
	for _, d := range bill.Dependencies {
		for _, ref := range d.DependsOn {
			if !known[ref] {
				t.Errorf("%s depends on %s, which is not a component", d.Ref, ref)
			}
		}
		holds := func(module string) bool {
			return slices.ContainsFunc(d.DependsOn, func(on string) bool { return strings.HasPrefix(on, "pkg:golang/"+module+"@") })
		}
		if d.Ref == "bin/opsgate" && (!holds("std") || !holds("google.golang.org/grpc") || holds("modernc.org/sqlite")) {
			t.Errorf("dependencies of opsgate: %q", d.DependsOn)
		}
	}
}

func checkSums(t *testing.T, dir string, files int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", sumsName)
	cmd.Dir = dir
	if output := testkit.Output(t, cmd); strings.Count(output, ": OK\n") != files-1 {
		t.Error(output)
	}
}

func TestChartVersion(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3-rc.1", "1.2.3-4-gabcdef0-dirty": "1.2.3-4-gabcdef0-dirty", "abcdef0-dirty": "0.0.0-abcdef0-dirty",
	} {
		if got := chartVersion(version); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{
		{"-platforms", "linux", "-version", "1", "-revision", "1", "-date", "2026-01-31T12:00:00Z"},
		{"-version", "1", "-revision", "1", "-date", "yesterday"},
		{"-source", t.TempDir()},
		{"-none"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestRevisionWithUntrackedFilesIsMarkedAsModified(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@t"}, args...)...)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	git("config", "status.showUntrackedFiles", "no")
	git("commit", "-q", "--allow-empty", "-m", "first")
	for _, test := range []struct {
		untracked string
		modified  bool
	}{{"", false}, {"extra.go", true}} {
		if test.untracked != "" {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, test.untracked), nil, 0o600))
		}
		r, err := parse(t.Context(), []string{"-source", dir})
		testkit.Must(t, err)
		if got := strings.HasSuffix(r.revision, "-modified"); got != test.modified {
			t.Errorf("with %q: revision %s", test.untracked, r.revision)
		}
	}
}
