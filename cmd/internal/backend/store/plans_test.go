package store_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

// unboundedFiles are the queries that no call of the API makes: the command line, maintenance, the
// moving demo, and deliveries, of which an action writes one for each subscriber.
var unboundedFiles = map[string]bool{
	"retention.sql": true, "simulation.sql": true, "subscriber.sql": true, "delivery.sql": true,
}

// exceptions are queries in the other files that may scan a table or return any number of rows.
var exceptions = map[string]string{
	"ListTeams":                   "the command line",
	"ListTokensAnyTeam":           "the command line",
	"ListTokensThatExpireAnyTeam": "the command line",
	"GetInstallation":             "a table of one row",
	"ListIncidentUpdates":         "the inner query has the limit",
	"CountMonitorChecks":          "a row for each of the team's monitors",
	"ListMonitorComponents":       "components of one team",
}

// unordered finds queries of lists whose order does not end with a column that is unique in the
// list. The demo data has few equal rows.
var unordered = regexp.MustCompile(`ORDER BY [^;(]*\b(name|position|created_at)( DESC)?\s*(;|LIMIT)`)

// sorting are queries that sort what they return, at most the rows that a dashboard may create.
var sorting = map[string]bool{"ListServerGroups": true, "ListStatusPages": true, "ListHourlyMetrics": true}

// No query of a call of the API scans a table or sorts a log, and each returns a bounded number of
// rows in one order.
func TestQueriesOfTheAPIAreBounded(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	db := storetest.Open(t, dir, "")
	files, err := filepath.Glob("queries/*.sql")
	testkit.Must(t, err)
	checked := 0
	for _, file := range files {
		if unboundedFiles[filepath.Base(file)] {
			continue
		}
		for name, q := range queriesIn(t, file) {
			if exceptions[name] != "" {
				continue
			}
			checked++
			if q.many && !regexp.MustCompile(`(?i)\blimit\b`).MatchString(q.text) {
				t.Errorf("%s has no LIMIT", name)
			}
			if unordered.MatchString(q.text) && name != "ListRevocationsAfterAnyTeam" { // the position of a revocation is its key
				t.Errorf("%s returns equal rows in any order", name)
			}
			for _, step := range plan(t, db, q.text) {
				if strings.HasPrefix(step, "SCAN ") && !strings.HasPrefix(step, "SCAN CONSTANT") && !strings.HasPrefix(step, "SCAN (subquery") &&
					step != "SCAN installation" { // a table of one row
					t.Errorf("%s: %s", name, step)
				}
				if strings.Contains(step, "TEMP B-TREE FOR ORDER BY") && !sorting[name] {
					t.Errorf("%s sorts: %s", name, step)
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d queries", checked)
	}
}

type sqlQuery struct {
	text string
	many bool
}

// queriesIn returns the queries of a file by name, with the parameters of SQLite.
func queriesIn(t *testing.T, file string) map[string]sqlQuery {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	queries := map[string]sqlQuery{}
	for _, part := range strings.Split(string(text), "-- name: ")[1:] {
		head, body, _ := strings.Cut(part, "\n")
		name, kind, _ := strings.Cut(head, " ")
		body = regexp.MustCompile(`sqlc\.n?arg\((\w+)\)`).ReplaceAllString(body, ":$1")
		queries[name] = sqlQuery{text: body, many: kind == ":many"}
	}
	return queries
}

// plan returns the steps of the query plan.
func plan(t *testing.T, db *sql.DB, text string) (steps []string) {
	t.Helper()
	parameters := map[string]bool{}
	var arguments []any
	for _, found := range regexp.MustCompile(`[( =]:(\w+)`).FindAllStringSubmatch(text, -1) {
		if !parameters[found[1]] {
			parameters[found[1]] = true
			arguments = append(arguments, sql.Named(found[1], 1))
		}
	}
	for range strings.Count(text, "?") {
		arguments = append(arguments, 1)
	}
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, arguments...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer func() { testkit.Must(t, rows.Close()) }()
	for rows.Next() {
		var id, parent, unused int
		var step string
		testkit.Must(t, rows.Scan(&id, &parent, &unused, &step))
		steps = append(steps, fmt.Sprint(step))
	}
	testkit.Must(t, rows.Err())
	return steps
}
