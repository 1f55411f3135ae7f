package simulation_test

import (
	"database/sql"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/cmd/internal/dev/simulation"
	"opsgate/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

// begin is the start of the simulated time: a Tuesday.
func begin() time.Time { return time.Date(2026, 3, 10, 9, 30, 17, 0, time.UTC) }

// A world is a backend with demo data that a simulation moves.
type world struct {
	t   *testing.T
	now atomic.Int64
	db  *sql.DB
	*simulation.Simulation
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t}
	w.now.Store(begin().UnixNano())
	dir := t.TempDir()
	backend, err := service.Open(t.Context(), service.Options{DataDir: dir, Clock: w.clock})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, backend.Close()) })
	testkit.Must(t, demo.Seed(t.Context(), backend.Store(), authn.TokenFormat{Prefix: "ops_"}, begin()))
	w.db = storetest.Open(t, dir, "")
	w.Simulation, err = simulation.New(t.Context(), simulation.Options{
		Backend: backend, Clock: w.clock, Seed: seed, Logger: slog.New(slog.DiscardHandler),
	})
	testkit.Must(t, err)
	return w
}

func (w *world) clock() time.Time { return time.Unix(0, w.now.Load()).UTC() }

// advance lets time pass, as Run does.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	for range d / (10 * time.Second) {
		w.now.Add(int64(10 * time.Second))
		testkit.Must(w.t, w.Advance(w.t.Context(), w.clock()))
	}
}

// texts returns the first column of a query's rows.
func (w *world) texts(query string, arguments ...any) []string {
	w.t.Helper()
	return storetest.Column[string](w.t, w.db, query, arguments...)
}

func (w *world) count(query string, arguments ...any) int {
	w.t.Helper()
	return storetest.Column[int](w.t, w.db, query, arguments...)[0]
}

func TestMonitorGoesDownAndRecovers(t *testing.T) {
	w := newWorld(t, 1)
	const incident = "SELECT status FROM incidents WHERE title = 'Booking API is down' AND created_at BETWEEN ? AND ?"
	from, until := begin().Add(3*time.Minute).UnixNano(), begin().Add(5*time.Minute).UnixNano()
	w.advance(5 * time.Minute)
	if status := w.texts(incident, from, until); !slices.Equal(status, []string{"investigating"}) {
		t.Fatalf("the first outage has incidents with the status %v", status)
	}
	w.advance(25 * time.Minute)
	if status := w.texts(incident, from, until); !slices.Equal(status, []string{"resolved"}) {
		t.Errorf("after the recovery: %v", status)
	}
	w.advance(90 * time.Minute)
	const changes = "SELECT count(DISTINCT resource_id) FROM audit_entries WHERE created_at > ? AND action_type = ?"
	if down, up := w.count(changes, until, "monitor.down"), w.count(changes, until, "monitor.recovered"); down < 3 || up < 3 {
		t.Errorf("%d other monitors went down, %d recovered", down, up)
	}
	if changed := w.texts(`SELECT name FROM monitors WHERE last_status_change_at > ? AND (interval_seconds > 300 AND status <> 'up' OR NOT enabled)
		OR name = 'Mail relay' AND last_status_change_at IS NOT NULL`, begin().UnixNano()); len(changed) > 0 {
		t.Errorf("these must not fail: %v", changed)
	}
}

func TestAgentsReportEachMinute(t *testing.T) {
	w := newWorld(t, 1)
	w.advance(10 * time.Minute)
	if servers := w.texts(`SELECT name FROM servers s WHERE last_seen_at IS NOT NULL AND
		(SELECT count(*) FROM server_metrics m WHERE m.server_id = s.id AND m.at > ?) <> 10`, begin().UnixNano()); len(servers) > 0 {
		t.Errorf("not each minute: %v", servers)
	}
	if servers := w.texts("SELECT name FROM servers WHERE last_seen_at IS NULL"); len(servers) != 1 {
		t.Errorf("never seen: %v", servers)
	}
	if servers := w.texts(`SELECT server_id FROM (SELECT server_id, disk_total_gb AS total, disk_used_gb AS disk,
			lag(disk_used_gb) OVER (PARTITION BY server_id ORDER BY at) AS before FROM server_metrics WHERE at > ?)
		WHERE abs(disk - before) > total / 500`, begin().Add(-time.Hour).UnixNano()); len(servers) > 0 {
		t.Errorf("the use of a disk jumps: %v", servers)
	}
}

func TestSameSeedGivesTheSameReports(t *testing.T) {
	reports := func(seed uint64) []string {
		w := newWorld(t, seed)
		w.advance(20 * time.Minute)
		return slices.Concat(
			w.texts("SELECT server_id || ' ' || at || ' ' || cpu_percent FROM server_metrics WHERE at > ? ORDER BY 1", begin().UnixNano()),
			w.texts("SELECT monitor_id || ' ' || checked_at || ' ' || status || ' ' || latency_ms FROM monitor_checks WHERE checked_at > ? ORDER BY 1",
				begin().UnixNano()))
	}
	first := reports(7)
	if difference := cmp.Diff(first, reports(7)); difference != "" {
		t.Errorf("the reports of one seed differ:\n%s", difference)
	}
	if slices.Equal(first, reports(8)) {
		t.Error("the reports of two seeds are equal")
	}
}

// A report that fails does not stop the others, and the next one is sent.
func TestAdvance_ContinuesAfterFailures(t *testing.T) {
	w := newWorld(t, 1)
	w.exec("CREATE TRIGGER broken BEFORE INSERT ON monitor_checks BEGIN SELECT raise(ABORT, 'broken'); END")
	w.now.Add(int64(3 * time.Minute))
	if err := w.Advance(t.Context(), w.clock()); err == nil || !strings.Contains(err.Error(), "check Booking API") {
		t.Errorf("got %v", err)
	}
	if n := w.count("SELECT count(DISTINCT at) FROM server_metrics WHERE at > ?", begin().UnixNano()); n < 2 {
		t.Errorf("agents reported %d times while checks failed", n)
	}
	w.exec("DROP TRIGGER broken")
	w.advance(5 * time.Minute)
	if n := w.count("SELECT count(DISTINCT monitor_id) FROM monitor_checks WHERE checked_at > ?", begin().UnixNano()); n < 5 {
		t.Errorf("%d monitors were checked", n)
	}
}

func (w *world) exec(statement string) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), statement)
	testkit.Must(w.t, err)
}

// A computer that sleeps for a night reports the present when it wakes, and does the maintenance.
func TestAdvance_DoesNotMakeUpForTimeAsleep(t *testing.T) {
	w := newWorld(t, 1)
	w.now.Add(int64(8 * time.Hour))
	testkit.Must(t, w.Advance(t.Context(), w.clock()))
	at := w.texts("SELECT DISTINCT at FROM server_metrics WHERE at > ? ORDER BY at DESC", begin().UnixNano())
	if len(at) != 2 || at[0] != w.texts("SELECT CAST(? AS TEXT)", w.now.Load())[0] {
		t.Errorf("agents reported at %v, and it is %d", at, w.now.Load())
	}
	if w.count("SELECT count(*) FROM server_metric_hours") == 0 {
		t.Error("no rollups")
	}
}
