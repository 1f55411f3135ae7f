package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// packages are the names of the packages.
var packages = []string{"opsctl", "opsgate"}

// command runs a program, which must succeed, and returns its output.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, output)
	}
	return string(output)
}

// isInstalled reports whether a program is installed, which CI requires.
func isInstalled(t *testing.T, program string) bool {
	t.Helper()
	_, err := exec.LookPath(program)
	switch {
	case err == nil:
		return true
	case os.Getenv("CI") != "":
		t.Error(err)
	default:
		t.Logf("%s is not installed: its packages are not checked", program)
	}
	return false
}

// wantedFiles are some files of each package.
func wantedFiles(program, zsh string) []string {
	list := []string{
		"/usr/bin/" + program, "/usr/share/man/man1/" + program + ".1", "/usr/share/bash-completion/completions/" + program,
		"/usr/share/fish/vendor_completions.d/" + program + ".fish", "/usr/share/zsh/" + zsh + "/_" + program,
		"/usr/share/doc/" + program + "/copyright",
	}
	if program == "opsctl" {
		return append(list, "/usr/share/man/man1/opsctl-servers-list.1")
	}
	return append(list, "/usr/share/man/man1/opsgate-serve.1", "/etc/opsgate/opsgate.yaml", "/etc/opsgate/credentials",
		"/usr/lib/systemd/system/opsgate.service", "/usr/lib/systemd/system/opsgate.socket")
}

// checkPackages checks the packages of a release.
func checkPackages(t *testing.T, made map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	for _, program := range packages {
		name := program + "_1.2.3_linux_" + runtime.GOARCH
		for _, format := range []string{".deb", ".rpm"} {
			content, exists := made[name+format]
			if !exists {
				t.Fatalf("there is no %s%s", name, format)
			}
			must(t, os.WriteFile(filepath.Join(dir, name+format), content, 0o600))
		}
		if isInstalled(t, "dpkg") {
			checkDebianPackage(t, program, filepath.Join(dir, name+".deb"))
		}
		if isInstalled(t, "rpm") {
			checkRPM(t, program, filepath.Join(dir, name+".rpm"))
		}
	}
	if isInstalled(t, "dpkg") {
		checkInstallation(t, filepath.Join(dir, "opsctl_1.2.3_linux_"+runtime.GOARCH+".deb"))
	}
}

func checkDebianPackage(t *testing.T, program, file string) {
	t.Helper()
	for line := range strings.Lines(command(t, "dpkg-deb", "--contents", file)) {
		if !strings.Contains(line, " root/root ") || !strings.Contains(line, " 2026-01-31 10:00 ") {
			t.Errorf("got %s", line)
		}
	}
	if got := command(t, "dpkg-deb", "--field", file, "Package", "Version"); got != "Package: "+program+"\nVersion: 1.2.3\n" {
		t.Errorf("got %s", got)
	}
	root := t.TempDir()
	command(t, "dpkg-deb", "--raw-extract", file, root)
	for _, path := range wantedFiles(program, "vendor-completions") {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
	if got := command(t, filepath.Join(root, "usr", "bin", program), "version"); !strings.HasPrefix(got, program+" 1.2.3\n") {
		t.Errorf("got %s", got)
	}
	if program == "opsgate" {
		checkService(t, root)
	}
}

// checkService checks the unit, the configuration and the scripts of the package of opsgate.
func checkService(t *testing.T, root string) {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join(root, "usr", "lib", "systemd", "system", "opsgate.service"))
	must(t, err)
	if text := string(unit); !strings.Contains(text, "\nExecStart=/usr/bin/opsgate serve --config /etc/opsgate/opsgate.yaml\n") || strings.Contains(text, "/usr/local") {
		t.Errorf("got %s", text)
	}
	kept, err := os.ReadFile(filepath.Join(root, "DEBIAN", "conffiles"))
	if err != nil || string(kept) != "/etc/opsgate/opsgate.yaml\n" {
		t.Errorf("%v, conffiles %q", err, kept)
	}
	secrets, err := os.Stat(filepath.Join(root, "etc", "opsgate", "credentials"))
	if err != nil || secrets.Mode() != os.ModeDir|0o700 {
		t.Errorf("%v, %v", err, secrets)
	}
	command(t, filepath.Join(root, "usr", "bin", "opsgate"), "check", "--config", filepath.Join(root, "etc", "opsgate", "opsgate.yaml"))
	for _, script := range []string{"postinst", "prerm"} {
		command(t, "sh", "-n", filepath.Join(root, "DEBIAN", script))
	}
}

// checkInstallation installs a package without scripts into a folder, and removes it.
func checkInstallation(t *testing.T, file string) {
	t.Helper()
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "var", "lib", "dpkg", "updates"), 0o755))
	must(t, os.MkdirAll(filepath.Join(root, "var", "lib", "dpkg", "info"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "var", "lib", "dpkg", "status"), nil, 0o600))
	dpkg := func(args ...string) {
		t.Helper()
		command(t, "dpkg", append([]string{"--root=" + root, "--log=/dev/null", "--force-not-root"}, args...)...)
	}
	program := filepath.Join(root, "usr", "bin", "opsctl")
	dpkg("--install", file)
	if got := command(t, program, "version"); !strings.HasPrefix(got, "opsctl 1.2.3\n") {
		t.Errorf("got %s", got)
	}
	dpkg("--verify", "opsctl")
	pages, err := filepath.Glob(filepath.Join(root, "usr", "share", "man", "man1", "*.1"))
	if err != nil || len(pages) < 20 {
		t.Errorf("%d manual pages, %v", len(pages), err)
	}
	for _, page := range pages {
		checkPage(t, page)
	}
	dpkg("--remove", "opsctl")
	if _, err := os.Stat(program); !os.IsNotExist(err) {
		t.Errorf("after the removal: %v", err)
	}
}

func checkRPM(t *testing.T, program, file string) {
	t.Helper()
	rpm := func(args ...string) []string {
		t.Helper()
		return strings.Split(strings.TrimSpace(command(t, "rpm", append(args, file)...)), "\n")
	}
	listed := rpm("--query", "--list", "--package")
	for _, path := range wantedFiles(program, "site-functions") {
		if !slices.Contains(listed, path) {
			t.Errorf("%s is not in %q", path, listed)
		}
	}
	if got := rpm("--query", "--queryformat=%{NAME} %{VERSION} %{BUILDTIME} %{BUILDHOST}", "--package")[0]; got != program+" 1.2.3 1769853600 localhost" {
		t.Errorf("got %s", got)
	}
	want := ""
	if program == "opsgate" {
		want = "/etc/opsgate/opsgate.yaml"
	}
	if got := rpm("--query", "--configfiles", "--package"); got[0] != want || len(got) != 1 {
		t.Errorf("configuration files: %q", got)
	}
	if got := rpm("--checksig", "--nosignature"); !strings.Contains(got[0], "digests OK") {
		t.Errorf("got %q", got)
	}
}
