package chaos

import (
	"bytes"
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the test fills the database file of a stopped backend

	"opsgate/cmd/internal/backend/store"
	"opsgate/internal/testkit"
)

// created are the requests of a token in a day at the default limits.
const created = 24 * 5000

// Row 33: a team with everything that the API let it create in a day reads its largest lists at its
// limit. Another team is served as before.
func TestAttackTenantWithEverything(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	b := startBackend(t)
	g := startGateway(t, everyService(b.address), unlimited)
	page := resourcesOf(t, g)["/v1/status-pages"][0]
	other := newOtherTeam(t, g)
	other.during(t, time.Second)
	calm := other.during(t, either(10*time.Second, 2*time.Second))

	team := teamOf(t, b.data)
	b.End(t)
	n := either(created, created/20)
	fillTeam(t, b.data, team, page, n)
	b.restart(t)
	attacker, client := tokens(t)["full"].Text, newClient(t, nil)
	testkit.Eventually(t, "the gateway has reconnected to all services", func() bool {
		return !slices.ContainsFunc(reads(), func(path string) bool {
			a := fetch(t.Context(), client, g.url+path, attacker)
			return a.err != nil || a.status >= http.StatusInternalServerError
		})
	})
	sizes, _ := readEverything(t, g, attacker, largestReads(t, resourcesOf(t, g)))
	path, size := maxSize(sizes)
	report(t, "largest response of the team, "+path, fmt.Sprint(size/1000, " kB"), "–")
	slow := slowest(t, g, attacker, slices.Sorted(maps.Keys(sizes)), 3)
	for _, a := range slow {
		report(t, "one of its three slowest lists, "+a.path, tenths(a.took), "–")
	}

	stopOther, stopWatching := other.start(t), watch(t, b.admin)
	own := load{
		gateways: []*gateway{g}, tokens: map[string]string{"full": attacker}, paths: slow.paths(),
		rate: 3, clients: mostClients,
	}.during(t, either(30*time.Second, 3*time.Second))
	during, seen := stopOther(), stopWatching()
	baseline := max(calm.percentile(.99), other.during(t, either(10*time.Second, time.Second)).percentile(.99)) // the load of the machine varies
	if seen.err != nil {
		t.Error(seen.err)
	}

	what := fmt.Sprintf("%d open incidents", n)
	expectNone(t, fmt.Sprintf("%s: of %d requests of the team itself, failed", what, len(own)), len(own.failed()))
	expectNone(t, fmt.Sprintf("%s: of %d requests of another team, failed", what, len(during)), len(during.failed()))
	atMostTimes(t, fmt.Sprintf("p99 of another team (%v without)", tenths(baseline)), during.percentile(.99), baseline, 3)
	atMost(t, "most resident memory of the backend, MiB", int(seen.rss)>>20, either(150, 1500))
	expectOpenIncidentRefused(t, g, page)
}

// newOtherTeam returns a load that reads everything of the team of the token "other_team".
func newOtherTeam(t *testing.T, g *gateway) load {
	t.Helper()
	resources := resourcesOfToken(t, g, "other_team")
	var paths []string
	for _, path := range readable() {
		paths = append(paths, resources.fill(path, first))
	}
	return load{
		gateways: []*gateway{g}, paths: paths, tokens: texts(t, "other_team"), client: newClient(t, nil), rate: either(50.0, 20), clients: 16,
	}
}

// slowest requests each path once, and returns the n slowest responses.
func slowest(t *testing.T, g *gateway, token string, paths []string, n int) responses {
	t.Helper()
	client := newClient(t, nil)
	var all responses
	for _, path := range paths {
		a := fetch(t.Context(), client, g.url+path, token)
		a.path = path
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b response) int { return cmp.Compare(b.took, a.took) })
	return all[:n]
}

func (all responses) paths() (paths []string) {
	for _, a := range all {
		paths = append(paths, a.path)
	}
	return paths
}

// fillTeam inserts n open incidents on the page into the database of a stopped backend, each with
// an update and an audit entry, and then one with updates of 4 MiB. No version of the API lets a
// token create more in a day.
func fillTeam(t *testing.T, data, team, page string, n int) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, store.FileName))
	testkit.Must(t, err)
	defer func() { _ = db.Close() }()
	const numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3) "
	const id = "printf('33333333-3333-4333-8333-%012x', i)"
	const at = "(unixepoch() - 60) * 1000000000 + i"
	for _, statement := range []string{
		"INSERT INTO incidents (id, team_id, status_page_id, title, status, impact, is_maintenance, started_at, created_at, affects_page) " + numbers +
			"SELECT " + id + ", ?1, ?2, printf('Incident %d %s', i, substr(hex(zeroblob(110)), 1, 200)), 'investigating', 'minor', 0, " +
			at + ", " + at + ", 1 FROM n",
		"INSERT INTO incident_updates (id, team_id, incident_id, status, message, created_at) " + numbers +
			"SELECT " + id + ", ?1, " + id + ", 'investigating', 'We are looking into it.', " + at + " FROM n WHERE ?2 <> ''",
		"INSERT INTO audit_entries (id, team_id, action_type, resource_type, resource_id, actor_id, ip_address, request_id, created_at) " + numbers +
			"SELECT " + id + ", ?1, 'incident.created', 'incident', " + id + ", ?1, '192.0.2.1', '', " + at + " FROM n WHERE ?2 <> ''",
		"INSERT INTO incident_updates (id, team_id, incident_id, status, message, created_at) " + strings.Replace(numbers, "?3", "419 + 0 * ?3", 1) +
			"SELECT printf('44444444-4444-4444-8444-%012x', i), ?1, printf('33333333-3333-4333-8333-%012x', ?3), 'investigating', " +
			"replace(hex(zeroblob(5000)), '0', 'x'), unixepoch() * 1000000000 + i FROM n WHERE ?2 <> ''",
	} {
		if _, err := db.ExecContext(t.Context(), statement, team, page, n); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// expectOpenIncidentRefused checks that the team cannot open another incident, and that the
// response names the field.
func expectOpenIncidentRefused(t *testing.T, g *gateway, page string) {
	t.Helper()
	body := fmt.Sprintf(`{"title":"One more","status":"investigating","impact":"minor","message":"m","statusPageId":%q}`, page)
	status, answer := postIncident(t, newClient(t, nil), g, body)
	if status != http.StatusUnprocessableEntity || !bytes.Contains(answer, []byte(`"title":`)) {
		t.Errorf("an open incident too many: %d %s", status, answer)
	}
}
