package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// packages are the names of the packages.
var packages = []string{"opsctl", "opsgate"}

// command runs a program, which must succeed, and returns its output.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	return testkit.Output(t, cmd)
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

// checkPackages checks the packages in the folder of a release.
func checkPackages(t *testing.T, dir string) {
	t.Helper()
	file := func(program, format string) string {
		return filepath.Join(dir, program+"_1.2.3_linux_"+runtime.GOARCH+format)
	}
	t.Run("dpkg", func(t *testing.T) {
		testkit.Find(t, "dpkg")
		for _, program := range packages {
			checkDebianPackage(t, program, file(program, ".deb"))
		}
		checkInstallation(t, file("opsctl", ".deb"))
	})
	t.Run("rpm", func(t *testing.T) {
		testkit.Find(t, "rpm")
		for _, program := range packages {
			checkRPM(t, program, file(program, ".rpm"))
		}
	})
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
	testkit.Must(t, err)
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
	testkit.Must(t, os.MkdirAll(filepath.Join(root, "var", "lib", "dpkg", "updates"), 0o755))
	testkit.Must(t, os.MkdirAll(filepath.Join(root, "var", "lib", "dpkg", "info"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(root, "var", "lib", "dpkg", "status"), nil, 0o600))
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
	checkManual(t, filepath.Join(root, "usr", "share", "man", "man1"))
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
