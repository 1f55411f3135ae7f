package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

// aptGet stands for apt-get. It records its calls, and whether a package that it installs may start
// its service. The package of a program is called like it, or like it with a d; there is none
// called unknown. NETWORK is how update ends.
const aptGet = `#!/bin/sh
dir=${0%/*}
case "$*" in
update*) echo update >>"$dir/calls"; exit "$NETWORK" ;;
*unknown*) exit 100 ;;
esac
for package; do
	case $package in -* | install) continue ;; esac
	echo "install $package" >>"$dir/calls"
	/usr/sbin/policy-rc.d "$package" start
	[ $? = 101 ] || echo "start $package" >>"$dir/calls"
	ln -s /bin/true "$dir/${package%d}"
done
`

// Root's make test and make test-programs install what is missing, and nothing of that is started.
func TestMissingProgramsAreInstalled(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/usr/sbin").CombinedOutput(); err != nil {
		testkit.SkipWithout(t, "root", string(out))
	}
	for _, c := range []struct {
		name, programs, network string
		works                   bool
		calls                   []string
	}{
		{"none is missing", "sh", "0", true, nil},
		{"some are missing", "sh missing-1 missing-2/missing-2d", "0", true, []string{"update", "install missing-1", "install missing-2d"}},
		{"one is unknown", "missing-1 unknown missing-2", "0", false, []string{"update", "install missing-1", "install missing-2"}},
		{"without a network", "missing-1", "100", false, []string{"update"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "apt-get"), []byte(aptGet), 0o700))
			command := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "sh", "-c",
				`mount -t tmpfs tmpfs /usr/sbin; "$@"; result=$?; ls /usr/sbin; exit $result`, "sh", root + "/tools/programs.sh"},
				strings.Fields(c.programs)...)...)
			command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "NETWORK="+c.network)
			out, err := command.CombinedOutput()
			if (err == nil) != c.works || strings.Contains(string(out), "policy-rc.d") {
				t.Errorf("%v: it prints, and leaves in /usr/sbin\n%s", err, out)
			}
			calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
			if got := strings.Split(strings.TrimSpace(string(calls)), "\n"); !slices.Equal(got, c.calls) && len(calls)+len(c.calls) > 0 {
				t.Errorf("it calls apt-get for %q", got)
			}
		})
	}
}
