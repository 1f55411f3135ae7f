package demo_test

import (
	"database/sql"
	"math"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the test reads the file directly

	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/test/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// some is the largest number of rows of which there must be some.
const some = math.MaxInt

// A count is a query about the team with most of the data, and the number that it returns: from least to most.
// In queries, :team is the id of the team and :now the time of the data.
type count struct {
	what, query string
	least, most int
}

const oneHour = int(time.Hour)

var counts = []count{
	{"servers", "SELECT count(*) FROM servers WHERE team_id = :team", 25, 100},
	{"groups", "SELECT count(*) FROM server_groups WHERE team_id = :team", 4, 4},
	{"groups with servers", "SELECT count(DISTINCT group_id) FROM servers WHERE team_id = :team", 4, 4},
	{"servers without a group", "SELECT count(*) FROM servers WHERE team_id = :team AND group_id IS NULL", 1, 1},
	{"servers that were never seen", "SELECT count(*) FROM servers WHERE team_id = :team AND last_seen_at IS NULL", 1, 1},
	{"points of servers that were never seen", `SELECT count(*) FROM server_metrics m JOIN servers s ON s.id = m.server_id
		WHERE s.last_seen_at IS NULL`, 0, 0},
	{"servers without points in each hour of 30 days", `SELECT count(*) FROM servers s WHERE team_id = :team AND last_seen_at IS NOT NULL AND
		(SELECT count(DISTINCT at / :hour) FROM server_metrics WHERE server_id = s.id AND at > :now - 720 * :hour) < 720`, 0, 0},
	{"servers with few points in the last hour", `SELECT count(*) FROM servers s WHERE team_id = :team AND last_seen_at IS NOT NULL AND
		(SELECT count(*) FROM server_metrics WHERE server_id = s.id AND at > :now - :hour) < 10`, 0, 0},
	{"points out of range", `SELECT count(*) FROM server_metrics WHERE cpu_percent NOT BETWEEN 0 AND 100 OR ram_used_mb <= 0 OR
		ram_used_mb > ram_total_mb OR disk_used_gb <= 0 OR disk_used_gb > disk_total_gb`, 0, 0},

	{"commands of the longest history", `SELECT max(n) FROM (SELECT count(*) AS n FROM server_commands
		WHERE team_id = :team GROUP BY server_id)`, 150, 150},
	{"sources of commands", "SELECT count(DISTINCT source) FROM server_commands WHERE team_id = :team", 3, some},
	{"statuses of commands", "SELECT count(DISTINCT status) FROM server_commands WHERE team_id = :team", 4, some},
	{"commands whose fields do not fit their status", `SELECT count(*) FROM server_commands WHERE
		(started_at IS NULL) <> (status = 'queued') OR (finished_at IS NULL) <> (status IN ('queued', 'running')) OR
		(exit_code IS NULL) <> (finished_at IS NULL) OR (duration_ms IS NULL) <> (finished_at IS NULL) OR
		(status = 'succeeded') <> (coalesce(exit_code, 1) = 0)`, 0, 0},
	{"disabled scheduled commands", "SELECT count(*) FROM scheduled_commands WHERE team_id = :team AND NOT enabled", 1, some},
	{"scheduled commands that fail", `SELECT count(*) FROM scheduled_commands
		WHERE team_id = :team AND enabled AND consecutive_failures > 0`, 1, some},
	{"scheduled commands that work", `SELECT count(*) FROM scheduled_commands
		WHERE team_id = :team AND enabled AND consecutive_failures = 0`, 1, some},

	{"monitors", "SELECT count(*) FROM monitors WHERE team_id = :team", 12, 12},
	{"types of monitors", "SELECT count(DISTINCT type) FROM monitors WHERE team_id = :team", 6, 6},
	{"statuses of monitors", "SELECT count(DISTINCT status) FROM monitors WHERE team_id = :team", 3, 3},
	{"monitors that never changed", "SELECT count(*) FROM monitors WHERE team_id = :team AND last_status_change_at IS NULL", 1, 1},
	{"monitors without checks of 48 hours", `SELECT count(*) FROM monitors m WHERE team_id = :team AND
		(SELECT coalesce(min(checked_at), :now) FROM monitor_checks WHERE monitor_id = m.id AND checked_at >= :now - 48 * :hour)
			> :now - 48 * :hour + interval_seconds * 1000000000`, 0, 0},
	{"monitors that differ from their last check", `SELECT count(*) FROM monitors m WHERE team_id = :team AND status <>
		(SELECT status FROM monitor_checks WHERE monitor_id = m.id AND checked_at = m.last_check_at ORDER BY checked_at DESC LIMIT 1)`, 0, 0},
	{"monitors whose last change is not that of their checks", `SELECT count(*) FROM monitors m WHERE team_id = :team AND
		last_status_change_at IS NOT (SELECT max(checked_at) FROM (
			SELECT checked_at, status, lag(status) OVER (ORDER BY checked_at) AS before
			FROM monitor_checks WHERE monitor_id = m.id AND checked_at >= :now - 48 * :hour) WHERE status <> before)`, 0, 0},

	{"incidents", "SELECT count(*) FROM incidents WHERE team_id = :team", 160, 160},
	{"statuses of incidents", "SELECT count(DISTINCT status) FROM incidents WHERE team_id = :team", 4, 4},
	{"impacts of incidents", "SELECT count(DISTINCT impact) FROM incidents WHERE team_id = :team", 4, 4},
	{"maintenance", "SELECT count(*) FROM incidents WHERE team_id = :team AND is_maintenance", 1, some},
	{"incidents on a page", "SELECT count(*) FROM incidents WHERE team_id = :team AND status_page_id IS NOT NULL", 1, 159},
	{"incidents in another order by start than by creation", `SELECT count(*) FROM incidents a JOIN incidents b
		ON a.team_id = b.team_id AND a.created_at < b.created_at AND a.started_at > b.started_at WHERE a.team_id = :team`, 1, some},
	{"incidents that differ from their last update", `SELECT count(*) FROM incidents i JOIN incident_updates u ON u.id =
		(SELECT id FROM incident_updates WHERE incident_id = i.id ORDER BY created_at DESC, id DESC LIMIT 1)
		WHERE u.status <> i.status OR u.created_at > :now OR i.resolved_at <> u.created_at`, 0, 0},
	{"incidents without an update of their creation", `SELECT count(*) FROM incidents i WHERE created_at IS NOT
		(SELECT min(created_at) FROM incident_updates WHERE incident_id = i.id)`, 0, 0},

	{"pages", "SELECT count(DISTINCT unique_hostname) FROM status_pages WHERE team_id = :team", 4, 4},
	{"suspended pages", "SELECT count(*) FROM status_pages WHERE team_id = :team AND suspended", 1, 1},
	{"pages with a password", "SELECT count(*) FROM status_pages WHERE team_id = :team AND visibility = 'password'", 1, 1},
	{"pages without a description", "SELECT count(*) FROM status_pages WHERE team_id = :team AND description IS NULL", 1, 1},
	{"components in groups", "SELECT count(*) FROM components WHERE team_id = :team AND group_name IS NOT NULL", 1, some},
	{"components in no group", "SELECT count(*) FROM components WHERE team_id = :team AND group_name IS NULL", 1, some},

	{"audit entries", "SELECT count(*) FROM audit_entries WHERE team_id = :team", 300, 300},
	{"actions", "SELECT count(DISTINCT action_type) FROM audit_entries WHERE team_id = :team", 10, some},
	{"entries that do not fit their resource", `SELECT count(*) FROM audit_entries
		WHERE action_type NOT LIKE resource_type || '.%' OR created_at > :now`, 0, 0},

	{"teams", "SELECT count(*) FROM teams", 3, 3},
	{"teams without data", `SELECT count(*) FROM teams t WHERE NOT EXISTS (SELECT 1 FROM servers WHERE team_id = t.id) OR
		NOT EXISTS (SELECT 1 FROM monitors WHERE team_id = t.id) OR NOT EXISTS (SELECT 1 FROM status_pages WHERE team_id = t.id)`, 0, 0},
	{"other teams with no or as many incidents", `SELECT count(*) FROM teams t WHERE id <> :team AND
		(SELECT count(*) FROM incidents WHERE team_id = t.id) NOT BETWEEN 1 AND 159`, 0, 0},
}

func TestDemoDataHasAllCases(t *testing.T) {
	s := startSystem(t)
	team := s.teamOf("full")
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, store.FileName)+"?mode=ro")
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	for _, c := range counts {
		var got int
		err := db.QueryRowContext(t.Context(), c.query, sql.Named("team", team), sql.Named("now", now().UnixNano()), sql.Named("hour", oneHour)).Scan(&got)
		if err != nil || got < c.least || got > c.most {
			t.Errorf("%d %s, want %d to %d; %v", got, c.what, c.least, c.most, err)
		}
	}
	pages, err := s.incident.ListStatusPages(t.Context(), &incidentv1.ListStatusPagesRequest{TeamId: team})
	testkit.Must(t, err)
	overall := map[incidentv1.PublicStatus]bool{}
	for _, page := range pages.GetStatusPages() {
		overall[page.GetOverallStatus()] = true
	}
	if len(overall) != 4 {
		t.Errorf("statuses of pages: %v", overall)
	}
	s.checkTokens()
	s.checkSeedingAgain()
}

// The second call finds a team.
func (s *system) checkSeedingAgain() {
	s.t.Helper()
	before, err := s.backend.Tokens(s.t.Context())
	testkit.Must(s.t, err)
	testkit.Must(s.t, demo.Seed(s.t.Context(), s.backend.Store(), format(), now().Add(time.Hour)))
	after, err := s.backend.Tokens(s.t.Context())
	testkit.Must(s.t, err)
	if len(before) != len(after) || !before[0].CreatedAt.Equal(after[0].CreatedAt) {
		s.t.Error("the second call changed the data")
	}
}

func BenchmarkSeed(b *testing.B) {
	for b.Loop() {
		backend, err := service.Open(b.Context(), service.Options{DataDir: b.TempDir(), Clock: now})
		testkit.Must(b, err)
		testkit.Must(b, demo.Seed(b.Context(), backend.Store(), format(), now()))
		testkit.Must(b, backend.Close())
	}
}
