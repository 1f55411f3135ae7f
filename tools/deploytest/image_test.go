package deploytest

import (
	"debug/elf"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// standalone is a configuration without dependencies.
const standalone = `listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:ADMIN}
upstreams:
  fleet: &unreachable {address: 127.0.0.1:1}
  monitoring: *unreachable
  incident: *unreachable
  audit: *unreachable
  identity: *unreachable
shutdown: {drain_wait: 0s}
`

func TestProgramsAreStatic(t *testing.T) {
	for _, name := range []string{"opsgate", "opsbackend"} {
		file, err := elf.Open(filepath.Join(programs, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range file.Progs {
			if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
				t.Errorf("%s is linked dynamically", name)
			}
		}
		_ = file.Close()
		got := run(t, exec.CommandContext(t.Context(), filepath.Join(programs, name), "version"))
		want := name + " " + version + "\nrevision: " + revision + "\ndate: " + buildDate + "\n"
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s version: %q", name, got)
		}
	}
}

// The gateway runs with only the files of its image, as its user, on a read-only file system.
func TestGatewayRunsInItsImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chroot needs root")
	}
	rootfs := unpack(t, image(t, "opsgate"))
	admin := freePort(t)
	write(t, filepath.Join(rootfs, "etc", "opsgate", "opsgate.yaml"), strings.ReplaceAll(standalone, "ADMIN", admin))
	readable(t, rootfs)
	server := confined(t, rootfs, "/opsgate", "serve")
	log := new(strings.Builder)
	server.Stderr = log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	awaitReady(t, "http://127.0.0.1:"+admin+"/readyz", ended, log)

	if got := run(t, confined(t, rootfs, "/opsgate", "healthcheck")); !strings.Contains(got, `"status"`) {
		t.Errorf("healthcheck: %q", got)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	if out, err := confined(t, rootfs, "/opsgate", "healthcheck").CombinedOutput(); err == nil {
		t.Errorf("healthcheck of a stopped gateway: %s", out)
	}
}

// unpack copies the files of an image into a folder.
func unpack(t *testing.T, stage instructions.Stage) (rootfs string) {
	t.Helper()
	rootfs = t.TempDir()
	for _, c := range commands[*instructions.CopyCommand](stage) {
		source := strings.Replace(c.SourcePaths[0], "/out", programs, 1)
		content, err := os.ReadFile(source)
		if err != nil {
			t.Fatalf("file of the image: %v", err)
		}
		target := filepath.Join(rootfs, c.DestPath)
		write(t, target, string(content))
		if err := os.Chmod(target, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return rootfs
}

// readable makes a folder and its parents readable for all users.
func readable(t *testing.T, dir string) {
	t.Helper()
	run(t, exec.CommandContext(t.Context(), "chmod", "-R", "a+rX", dir))
	for dir != os.TempDir() && dir != "/" {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		dir = filepath.Dir(dir)
	}
}

// confined returns a command that runs with a folder as its read-only root, as the image's user.
func confined(t *testing.T, rootfs string, args ...string) *exec.Cmd {
	t.Helper()
	const enter = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec chroot --userspec=65532:65532 "$0" "$@"`
	unshare := need(t, "unshare")
	if err := exec.CommandContext(t.Context(), unshare, "--mount", "true").Run(); err != nil {
		t.Skip("mounting is not allowed here")
	}
	cmd := exec.CommandContext(t.Context(), unshare, append([]string{"--mount", "sh", "-c", enter, rootfs}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func awaitReady(t *testing.T, url string, ended <-chan error, log *strings.Builder) {
	t.Helper()
	await(t, func() bool {
		select {
		case err := <-ended:
			t.Fatalf("it has exited: %v\n%s", err, log)
		default:
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}
