package store_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

// anyTeam ends the names of queries that read or write rows of teams without a condition on the
// team. Their callers must have checked the team, or serve no team: maintenance, deliveries and the
// command line.
const anyTeam = "AnyTeam"

func TestQueriesWithoutATeamAreNamedSo(t *testing.T) {
	tables := teamTables(t)
	files, err := filepath.Glob("queries/*.sql")
	testkit.Must(t, err)
	checked := 0
	for _, file := range files {
		for name, q := range queriesIn(t, file) {
			checked++
			switch free := tables.unfiltered(q.text); {
			case len(free) > 0 && !strings.HasSuffix(name, anyTeam):
				t.Errorf("%s: %s uses %s of any team: add a condition on team_id, or end its name with %s", file, name, free, anyTeam)
			case len(free) == 0 && strings.HasSuffix(name, anyTeam):
				t.Errorf("%s: %s has a condition on the team", file, name)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d queries", checked)
	}
}

// The check finds each way to leave the team out.
func TestTheTeamOfAQueryIsFound(t *testing.T) {
	tables := teamTables(t)
	for query, want := range map[string]string{
		"SELECT * FROM monitors WHERE id = :id":                         "monitors",
		"SELECT * FROM monitors WHERE team_id = :team_id AND id = :id":  "",
		"SELECT * FROM monitors WHERE id = :id OR team_id = :team_id":   "monitors",
		"SELECT * FROM monitors WHERE id = :team_id":                    "monitors",
		"SELECT 1; -- WHERE team_id = :team_id\nSELECT * FROM monitors": "monitors",
		"UPDATE servers SET team_id = :team_id WHERE id = :id":          "servers",
		"DELETE FROM servers":                                                                                         "servers",
		"INSERT INTO servers (id, team_id) VALUES (?, ?)":                                                             "",
		"INSERT INTO server_metrics (server_id, at) VALUES (?, ?)":                                                    "server_metrics",
		"SELECT * FROM server_metrics m WHERE m.server_id = :id":                                                      "server_metrics",
		"SELECT * FROM server_metrics m JOIN servers s ON s.id = m.server_id WHERE s.team_id = :team_id":              "",
		"SELECT * FROM server_metrics m JOIN servers s ON s.id = m.server_id WHERE m.server_id = :id":                 "server_metrics servers",
		"SELECT * FROM monitors m JOIN servers s ON s.name = m.name WHERE m.team_id = :team_id":                       "servers",
		"SELECT 1 FROM servers WHERE team_id = :team_id AND EXISTS (SELECT 1 FROM monitors WHERE status = 'up')":      "monitors",
		"DELETE FROM servers WHERE servers.id IN (SELECT s.id FROM servers s WHERE s.team_id = :team_id AND s.a < 1)": "",
		"DELETE FROM servers WHERE servers.id IN (SELECT s.id FROM servers s WHERE s.created_at < 1)":                 "servers servers",
		"SELECT * FROM teams": "",
	} {
		if got := strings.Join(tables.unfiltered(query), " "); got != want {
			t.Errorf("%s: found %q, want %q", query, got, want)
		}
	}
}

// teamData are the tables with rows of teams: those with a team_id, and those that refer to one of
// them.
type teamData map[string]bool

func teamTables(t *testing.T) teamData {
	t.Helper()
	dir := t.TempDir()
	open(t, dir)
	db := storetest.Open(t, dir, "")
	tables := teamData{}
	for _, name := range storetest.Column[string](t, db, "SELECT m.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE c.name = 'team_id'") {
		tables[name] = true
	}
	for before := 0; before < len(tables); {
		before = len(tables)
		for _, reference := range storetest.Column[string](t, db, `SELECT m.name || ' ' || f."table" FROM sqlite_schema m, pragma_foreign_key_list(m.name) f`) {
			from, to, _ := strings.Cut(reference, " ")
			tables[from] = tables[from] || tables[to]
		}
	}
	for name, has := range tables {
		if !has {
			delete(tables, name)
		}
	}
	if !tables["deliveries"] || tables["teams"] { // deliveries refer to subscribers
		t.Fatalf("found %v", tables)
	}
	return tables
}

var (
	sqlComment   = regexp.MustCompile(`--[^\n]*`)
	sqlReference = regexp.MustCompile(`\b(FROM|JOIN|INTO|UPDATE) (\w+)(?: ([a-z]\w*))?`)
	sqlCondition = regexp.MustCompile(`\b(?:WHERE|AND|ON) (?:(\w+)\.)?team_id = :team_id\b`)
	sqlEquality  = regexp.MustCompile(`\b(?:WHERE|AND|ON) (\w+)\.(?:\w+_)?id (?:=|IN \( ?SELECT) (\w+)\.(?:\w+_)?id\b`)
	sqlInsertion = regexp.MustCompile(`\bINTO \w+ \([^)]*\bteam_id\b`)
)

// unfiltered returns the tables of teams of which a query uses rows of any team. A use is of one
// team if its team_id must be the argument team_id, or if an ID of it must be one of a use of that
// team. It understands the SQL of the queries, in which keywords are in upper case.
func (tables teamData) unfiltered(query string) []string {
	query = strings.Join(strings.Fields(sqlComment.ReplaceAllString(query, " ")), " ")
	filtered := map[string]int{} // by the name of the use; "" for those without one
	for _, c := range sqlCondition.FindAllStringSubmatch(query, -1) {
		filtered[c[1]]++
	}
	if strings.Contains(query, " OR team_id =") || strings.Contains(query, ".team_id = :team_id OR ") {
		filtered = map[string]int{}
	}
	for before := -1; before != len(filtered); {
		before = len(filtered)
		for _, e := range sqlEquality.FindAllStringSubmatch(query, -1) {
			if filtered[e[1]]+filtered[e[2]] > 0 {
				filtered[e[1]], filtered[e[2]] = max(filtered[e[1]], 1), max(filtered[e[2]], 1)
			}
		}
	}
	var free []string
	for _, r := range sqlReference.FindAllStringSubmatch(query, -1) {
		table, use := r[2], r[3]
		switch {
		case !tables[table], r[1] == "INTO" && sqlInsertion.MatchString(query):
		case use != "" && filtered[use] > 0, use == "" && filtered[table] > 0:
		case use == "" && filtered[""] > 0:
			filtered[""]-- // a condition without a name is on one use
		default:
			free = append(free, table)
		}
	}
	slices.Sort(free)
	return free
}
