package console_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/admin/console"
)

// sharing returns the statuses of three gateways that have run for an hour, after changes of each.
func sharing(changes ...func(g *admin.Gateway)) admin.Gateways {
	f := admin.Gateways{State: admin.GatewaysCurrent, ReadAt: &noon}
	for i := range 3 {
		hour, heard := noon.Add(-time.Hour), noon.Add(-time.Second)
		g := admin.Gateway{ID: fmt.Sprint("id-", i+1), Self: i == 0, HeardAt: &heard, GatewayStatus: admin.GatewayStatus{
			Host: fmt.Sprint("gate-", i+1), AdminListen: ":9090", Version: "1.2.3", Revision: "abc", ConfigVersion: "aaa", ConfigSince: &hour,
			Mode: "shared", ModeSince: &hour, Up: 3600,
		}}
		if i < len(changes) {
			changes[i](&g)
		}
		f.Gateways = append(f.Gateways, g)
	}
	return f
}

// allOf returns sharing with the same change of each gateway.
func allOf(change func(g *admin.Gateway)) admin.Gateways {
	f := sharing()
	for i := range f.Gateways {
		change(&f.Gateways[i])
	}
	return f
}

func TestFindingsOfTheFleet(t *testing.T) {
	ago := func(d time.Duration) *time.Time {
		at := noon.Add(-d)
		return &at
	}
	same := func(*admin.Gateway) {}
	mode := func(mode string, since time.Duration) func(*admin.Gateway) {
		return func(g *admin.Gateway) { g.Mode, g.ModeSince = mode, ago(since) }
	}
	configured := func(version string, since time.Duration) func(*admin.Gateway) {
		return func(g *admin.Gateway) { g.ConfigVersion, g.ConfigSince = version, ago(since) }
	}
	limited := func(version string, since time.Duration) func(*admin.Gateway) {
		return func(g *admin.Gateway) { configured("with "+version, since)(g); g.LimitsVersion = version }
	}
	built := func(up time.Duration) func(*admin.Gateway) {
		return func(g *admin.Gateway) { g.Version, g.Up = "1.2.4", up.Seconds() }
	}
	silent := func(d time.Duration) func(*admin.Gateway) {
		return func(g *admin.Gateway) { g.Silent, g.HeardAt = true, ago(d) }
	}
	local := mode("local", time.Minute)
	refused := func(g *admin.Gateway) { g.ConfigRefused = true }
	draining := func(change func(*admin.Gateway)) func(*admin.Gateway) {
		return func(g *admin.Gateway) { change(g); g.Draining = true }
	}
	const versions = "configuration.md#versions-differ"
	for _, test := range []struct {
		name     string
		gateways admin.Gateways
		want     []console.Finding
	}{
		{"nothing", sharing(), nil},
		{"one has lost Redis", sharing(same, mode("local", 40*time.Second)),
			impaired("gateways:cut-off:gate-2", "gate-2: Redis not in use for 40s, while 2 gateways use it", "rate limits there: local", "gateways.md#one-gateway-has-lost-redis")},
		{"two have lost Redis, and one of them refuses all requests", sharing(same, mode("local", 40*time.Second), mode("deny", time.Minute)),
			broken("gateways:cut-off:gate-2 and gate-3", "gate-2 and gate-3: Redis not in use for 1m, while 1 gateway uses it", "rate limits there: deny, local", "gateways.md#one-gateway-has-lost-redis")},
		{"all have lost Redis", allOf(local), nil},
		{"Redis returns to one after the other", sharing(mode("shared", 9*time.Second), local, mode("allow", time.Minute)), nil},
		{"one is silent", sharing(same, silent(14*time.Second)),
			impaired("gateways:silent:gate-2", "gate-2 has not been heard for 14s", "it was killed, hangs, or has lost Redis", "gateways.md#a-gateway-is-not-heard")},
		{"two are silent", sharing(same, silent(14*time.Second), silent(time.Minute)),
			impaired("gateways:silent:gate-2 and gate-3", "gate-2 and gate-3 have not been heard", "they were killed, hang, or have lost Redis\ngate-2: last heard 14s ago\ngate-3: last heard 1m ago", "gateways.md#a-gateway-is-not-heard")},
		{"refused by this one and the others", allOf(refused),
			impaired("gateways:refused:gate-2 and gate-3", "gate-2 and gate-3 refused the configuration on disk", "the page and the log there have the reason", "configuration.md#a-reload-failed")},
		{"configurations differ", sharing(same, configured("bbb", time.Minute)),
			impaired("gateways:configurations", "2 configurations among 3 gateways for 1m", "aaa on gate-1 and gate-3\nbbb on gate-2", versions)},
		{"limits differ", sharing(same, limited("111", time.Minute), limited("222", time.Hour)), slices.Concat(
			// gate-1 has an older version, which reports no limits.
			impaired("gateways:configurations", "3 configurations among 3 gateways for 1m", "aaa on gate-1\nwith 111 on gate-2\nwith 222 on gate-3", versions),
			impaired("gateways:sets of limits", "2 sets of limits among 3 gateways for 1m", "111 on gate-2\n222 on gate-3", versions),
		)},
		{"limits are rolled out", sharing(same, limited("111", 59*time.Second), limited("222", time.Hour)), nil},
		{"a configuration is rolled out", sharing(same, configured("bbb", 59*time.Second)), nil},
		{"a draining gateway has the old configuration", sharing(same, draining(configured("bbb", time.Hour))), nil},
		{"builds differ", sharing(same, built(11*time.Minute)),
			impaired("gateways:builds", "2 builds among 3 gateways for 11m", "1.2.3 abc on gate-1 and gate-3\n1.2.4 abc on gate-2", versions)},
		{"an upgrade", sharing(same, built(9*time.Minute)), nil},
		{"an older version", sharing(same, func(g *admin.Gateway) { *g = admin.Gateway{ID: g.ID, Unknown: true} }), nil},
		{"several on one host", sharing(same, func(g *admin.Gateway) { g.Host, g.AdminListen, g.ConfigVersion = "gate-1", ":9091", "bbb" }),
			impaired("gateways:configurations", "2 configurations among 3 gateways for 1h", "aaa on gate-1 :9090 and gate-3\nbbb on gate-1 :9091", versions)},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := healthy()
			check := func(want []console.Finding) {
				t.Helper()
				got, _ := firstEvents(t, newAtNoon(newCounters(), s))
				if diff := diffFindings(t, want, got.Findings); diff != "" {
					t.Error(diff)
				}
			}
			s.gateways = test.gateways
			check(test.want)
			for _, state := range []admin.GatewaysState{admin.GatewaysStale, admin.GatewaysReading, admin.GatewaysMemory} {
				s.gateways.State = state
				check(nil)
			}
		})
	}
}

func TestGatewayThatDeniesAllIsToLeaveTheBalancer(t *testing.T) {
	s := healthy()
	s.gateways = sharing(func(*admin.Gateway) {}, func(g *admin.Gateway) { g.Mode = "deny" })
	got, _ := firstEvents(t, newAtNoon(newCounters(), s))
	if len(got.Findings) != 1 || got.Findings[0].Impact != "with the mode deny, every request there gets 503" ||
		got.Findings[0].Action != "remove it from the balancer; then run redis-cli ping from that machine" {
		t.Errorf("got %+v", got.Findings)
	}
}
