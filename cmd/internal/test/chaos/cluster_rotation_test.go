package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Before the first release, the previous release is this commit.
const beforeFirstRelease = "22418eb"

// Gateways of the previous release are upgraded one after the other, then each secret, the certificates and the address of all services
// are rotated. No request fails, and two gateways of different releases share limits.
func TestRollingUpgradeAndRotation(t *testing.T) {
	if !*full {
		t.Skip("it builds the previous release: make cluster runs it")
	}
	previous := buildPrevious(t)
	limited := tokens(t)["full"]
	d := newDrill(t, previous, fmt.Sprintf("  limits: [{requests: 1000000, per: 1s}]\n  tokens:\n    %s: {limits: [{requests: 10, per: 1s}]}\n", limited.ID))
	c, s := d.cluster, d.rotation
	var upgraded time.Time
	for _, phase := range []struct {
		name string
		run  func()
	}{
		{"under the previous release", func() {}},
		{"while each gateway is upgraded", func() {
			for _, g := range c.gateways {
				g.End(t)
				g.program = "opsgate"
				g.restart(t)
				sleep(t, 2*time.Second) // both releases count in one Redis
			}
			upgraded = time.Now()
		}},
		{"while the admin token changes", func() {
			s.requireToken(t, c.gateways, d.config)
			s.rotateToken(t, c.gateways, "the second token of operators")
		}},
		{"while the password of Redis changes", func() { s.rotatePassword(t, c.redis, c.gateways, "second-password") }},
		{"while the certificate changes", func() {
			d.public.replace(t, 2)
			within(t, clusterRow, "until new connections had the new certificate", eventually(t, "the new certificate is used", func() bool {
				return all(c.gateways, func(g *gateway) bool { return d.public.serial(t, g.socket()) == 2 })
			}), time.Second)
		}},
		{"while the services move", func() {
			first := c.backends[0].address
			moveServices(t, clusterRow, c.gateways, d.config, d.name, first)
			for _, b := range c.backends[1:] {
				b.End(t)
			}
		}},
		{"after", func() {}},
	} {
		c.underLoad(t, phase.name, phase.run)
	}
	admitted := decisions(t, c.gateways)[limited.ID].admitted
	c.audit(t)
	atMost(t, clusterRow, "admitted of one token in any second, of 10, until both gateways were upgraded",
		maxIn(during(admitted, time.Time{}, upgraded), time.Second), 10)
	atMost(t, clusterRow, "and in any second afterwards", maxIn(during(admitted, upgraded, time.Now()), time.Second), 12)
}

// drill is a cluster whose secrets are rotated.
type drill struct {
	*cluster
	*rotation

	public *publicTLS
	config string
	name   string // of the services
}

// newDrill starts a cluster whose gateways run another program, with TLS between the balancer and the gateways.
func newDrill(t *testing.T, program, limits string) *drill {
	t.Helper()
	d := &drill{cluster: &cluster{}, rotation: newRotation(t, clusterRow), public: newPublicTLS(t)}
	d.redis = d.startRedis(t)
	d.backends, d.name = startReplicas(t, 3)
	d.config = d.rotation.config(d.redis, limits+recorded) + fmt.Sprintf("shutdown: {drain_wait: %v}\n", drainWait) + d.public.config()
	d.gateways = startPair(t, program, everyService(d.name), d.config)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	put(t, roots, d.public.authority.PEM)
	d.balancer = startBalancer(t, d.gateways, " ssl ca-file "+roots)
	return d
}

// buildPrevious builds the gateway of the previous release: of the last tag, else of beforeFirstRelease. It returns the program's name.
func buildPrevious(t *testing.T) string {
	t.Helper()
	git := func(arguments ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, arguments...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	release, err := git("describe", "--tags", "--abbrev=0", "--match=v*")
	if err != nil {
		release = beforeFirstRelease
	}
	if _, err := git("cat-file", "-e", release+"^{commit}"); err != nil {
		t.Skipf("the history does not have %s: %v", release, err)
	}
	archive, source := filepath.Join(t.TempDir(), "source.tar"), t.TempDir()
	if _, err := git("archive", "--output="+archive, release); err != nil {
		t.Fatal(err)
	}
	const name = "opsgate-previous"
	unpack := exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", source)
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", filepath.Join(programs, name), "./cmd/opsgate")
	build.Dir = source
	for _, command := range []*exec.Cmd{unpack, build} {
		command.Stderr = os.Stderr
		if err := command.Run(); err != nil {
			t.Fatalf("%v: %v", command.Args, err)
		}
	}
	report(t, clusterRow, "the previous release", release, "")
	return name
}
