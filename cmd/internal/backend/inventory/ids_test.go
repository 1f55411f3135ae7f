package inventory_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"opsgate/cmd/internal/backend/inventory"
)

// An id identifies a row whatever its name is. Without one the id follows from the name, so that it
// is the same on each installation.
func TestApply_RenamesByID(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	w.apply(pier)
	other.apply(pier)
	exported := w.export(false)
	if diff := cmp.Diff(exported, other.export(false)); diff != "" {
		t.Errorf("the ids of two installations differ: %s", diff)
	}
	id := regexp.MustCompile(`id: (\S+)\n +name: web-1\n`).FindStringSubmatch(exported)[1]
	// The name of before goes to a new server.
	renamed := replaced(t, pier, "- {name: web-1, host: web-1.pier.example", "- {name: web-1, host: x}\n"+
		"      - {id: "+id+", name: web-2, host: web-1.pier.example")
	wantLines(t, w.apply(renamed), []string{
		"+ server Pier/web-1", `~ server Pier/web-2: name "web-1" → "web-2"`,
	})
}

// References are to rows, not to names: a new row that has the name of before is another one.
func TestApply_ReferencesFollowRenamedRows(t *testing.T) {
	w := newWorld(t)
	w.apply(pier)
	idOf := func(kind, name string) string {
		return regexp.MustCompile(kind + `(?:.*\n)+? +- id: (\S+)\n +name: ` + name).FindStringSubmatch(w.export(false))[1]
	}
	group, monitor := idOf("groups:", "Web"), idOf("monitors:", "API")
	renamed := replaced(t, pier, "{name: Web,", "{id: "+group+", name: Site,", "group: Web", "group: Site",
		"{name: API, type", "{id: "+monitor+", name: Booking, type", "monitor: API", "monitor: Booking")
	wantLines(t, w.apply(renamed), []string{
		`~ server group Pier/Site: name "Web" → "Site"`, `~ monitor Pier/Booking: name "API" → "Booking"`,
	})
	again := replaced(t, renamed, "groups: [", "groups: [{name: Web, color: '#112233', position: 3}, ", "group: Site", "group: Web",
		"    monitors:\n", "    monitors:\n      - {name: API, type: http, target: x, interval_seconds: 60}\n", "monitor: Booking", "monitor: API")
	again = replaced(t, again, "{id: "+group, "{id: "+group+", position: 1", "{name: Jobs", "{name: Jobs, position: 2")
	wantLines(t, w.apply(again), []string{
		"+ server group Pier/Web", `~ server Pier/web-1: group "Site" → "Web"`, "+ monitor Pier/API",
		`~ component Pier/Pier/API: monitor "Booking" → "API"`,
	})
	wantLines(t, w.apply(again), nil)
	// Both at once: the names stay, the rows are others.
	again = replaced(t, again, "{name: Web", "{id: "+idOf("groups:", "Web")+", name: Web",
		"{name: API, type", "{id: "+idOf("monitors:", "API")+", name: API, type")
	swapped := strings.NewReplacer("name: Web,", "name: Site,", "name: Site,", "name: Web,",
		"name: API, type", "name: Booking, type", "name: Booking, type", "name: API, type").Replace(again)
	wantLines(t, w.apply(swapped), []string{
		`~ server group Pier/Site: name "Web" → "Site"`, `~ server group Pier/Web: name "Site" → "Web"`,
		`~ server Pier/web-1: group "Site" → "Web"`,
		`~ monitor Pier/Booking: name "API" → "Booking"`, `~ monitor Pier/API: name "Booking" → "API"`,
		`~ component Pier/Pier/API: monitor "Booking" → "API"`,
	})
	const linked = `SELECT count(*) FROM components c JOIN monitors m ON m.id = c.monitor_id
		JOIN servers s ON s.team_id = c.team_id JOIN server_groups g ON g.id = s.group_id WHERE m.name = 'API' AND g.name = 'Web'`
	if n := w.count(linked); n != 1 {
		t.Errorf("%d references to the rows that have the names now", n)
	}
}

// A row does not get the name of one that the file does not have: the export would have it twice,
// and could not be applied. So an id that the row with the name does not have is refused. A row
// does not get the id of one that is elsewhere either.
func TestApply_RefusesNamesAndIDsOfOtherRows(t *testing.T) {
	w := newWorld(t)
	w.apply(pier)
	exported := w.export(false)
	idOf := func(expression string) string {
		return regexp.MustCompile(`id: (\S+)\n +name: ` + expression).FindStringSubmatch(exported)[1]
	}
	web, jobs, team := idOf("Web\n"), idOf("Jobs\n"), idOf(`Pier\n +plan`)
	const unused = "11111111-2222-4333-8444-555555555555"
	w.apply("teams: [{name: Quay, plan: ai}]")
	const advice = ": use that id or none, or rename the other one first"
	for want, pairs := range map[string][]string{
		"server group Pier/Web: another row has the name, with the id " + web + advice: {
			"groups: [{name: Web, color: '#112233'}, {name: Jobs,", "groups: [{id: " + jobs + ", name: Web,",
		},
		"server group Pier/Jobs: another row has the name, with the id " + jobs + advice:       {"{name: Jobs,", "{id: " + unused + ", name: Jobs,"},
		"server group Pier/New: a row elsewhere has the id " + team + ", and rows do not move": {"{name: Web,", "{id: " + team + ", name: New,"},
		"team Quay: another row has the name, with the id ":                                    {"name: Pier", "id: " + team + "\n    name: Quay"},
	} {
		if _, err := w.try(replaced(t, pier, pairs...), inventory.Options{Actor: actor()}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	w.apply(exported)
}

// New rows get ids that no row has, although they follow from names: a renamed row keeps its id,
// and names may have any character.
func TestApply_NewRowsGetNewIDs(t *testing.T) {
	w := newWorld(t)
	w.apply(pier)
	id := regexp.MustCompile(`- id: (\S+)\n +name: Pier\n +plan`).FindStringSubmatch(w.export(false))[1]
	second := strings.TrimPrefix(strings.ReplaceAll(pier, "status.pier", "second.pier"), "teams:\n")
	file := replaced(t, pier, "name: Pier", "id: "+id+"\n    name: Old pier") + second
	all := w.apply(file)
	if len(all) != 13 || all[0] != `~ team Old pier: name "Pier" → "Old pier"` || all[1] != "+ team Pier" {
		t.Errorf("%q", all)
	}
	wantLines(t, w.apply(file), nil)
	const slashes = `teams:
  - name: Quay
    plan: ai
    servers:
      - {name: a, host: x, scheduled: [{name: b/c, command: x, cron: '0 1 * * *'}]}
      - {name: a/b, host: x, scheduled: [{name: c, command: x, cron: '0 1 * * *'}]}
`
	if lines := w.apply(slashes); len(lines) != 7 {
		t.Errorf("%q", lines)
	}
}
