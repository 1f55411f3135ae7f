package simulation_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/grpc"

	"opsgate/authn"
	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/cmd/internal/dev/simulation"
	incidentv1 "opsgate/proto/ops/incident/v1"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

// begin is the start of the simulated time: a Tuesday.
func begin() time.Time { return time.Date(2026, 3, 10, 9, 30, 17, 0, time.UTC) }

// A world is a backend with demo data that a simulation moves.
type world struct {
	t       testing.TB
	dir     string
	now     atomic.Int64
	backend *service.Backend
	db      *sql.DB          // for questions
	conn    *grpc.ClientConn // to the ingest service
	stop    func() error     // of that service
	*simulation.Simulation
}

// newWorld opens a backend at a time, with new demo data if the directory is empty.
func newWorld(t testing.TB, dir string, at time.Time, seed uint64) *world {
	t.Helper()
	w := &world{t: t, dir: dir}
	w.now.Store(at.UnixNano())
	var err error
	w.backend, err = service.Open(t.Context(), service.Options{DataDir: dir, Clock: w.clock})
	testkit.Must(t, err)
	testkit.Must(t, demo.Seed(t.Context(), w.backend.Store(), authn.TokenFormat{Prefix: "ops_"}, at))
	w.db = storetest.Open(t, dir, "mode=ro")
	w.Simulation, err = simulation.New(t.Context(), simulation.Options{
		Backend: w.backend, Ingest: w.serveIngest(), Clock: w.clock, Seed: seed, Logger: slog.New(slog.DiscardHandler),
	})
	testkit.Must(t, err)
	return w
}

// serveIngest serves the ingest service until the world is closed.
func (w *world) serveIngest() ingestv1.IngestServiceClient {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- w.backend.ServeIngest(ctx, listener, service.IngestOptions{Secrets: []string{"secret of the test"}})
	}()
	w.conn, err = simulation.Dial(listener.Addr().String(), "secret of the test")
	testkit.Must(w.t, err)
	w.stop = func() error {
		cancel()
		return <-ended
	}
	return ingestv1.NewIngestServiceClient(w.conn)
}

func (w *world) clock() time.Time { return time.Unix(0, w.now.Load()).UTC() }

// advance lets time pass, as Run does.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	for until := w.clock().Add(d); w.clock().Before(until); {
		w.now.Store(min(w.now.Load()+time.Second.Nanoseconds(), until.UnixNano()))
		testkit.Must(w.t, w.Advance(w.t.Context(), w.clock()))
	}
}

func (w *world) close() {
	w.t.Helper()
	testkit.Must(w.t, errors.Join(w.conn.Close(), w.stop(), w.backend.Close()))
}

// count returns the number that a query returns.
func (w *world) count(query string, arguments ...any) int {
	w.t.Helper()
	return storetest.Column[int](w.t, w.db, query, arguments...)[0]
}

// texts returns the first column of a query's rows.
func (w *world) texts(query string, arguments ...any) []string {
	w.t.Helper()
	return storetest.Column[string](w.t, w.db, query, arguments...)
}

// none fails the test if the query, whose rows have one column, returns a row.
func (w *world) none(what, query string, arguments ...any) {
	w.t.Helper()
	if found := w.texts(query, arguments...); len(found) > 0 {
		w.t.Errorf("%s: %d rows, first %s", what, len(found), found[0])
	}
}

// The same seed, start and data give the same rows, apart from ids. Another seed gives others.
func TestSameSeedGivesTheSameRows(t *testing.T) {
	rows := func(seed uint64) []string {
		w := newWorld(t, t.TempDir(), begin(), seed)
		defer w.close()
		w.advance(45 * time.Minute)
		return w.rows()
	}
	first, second := rows(7), rows(7)
	if difference := cmp.Diff(first, second); difference != "" {
		t.Errorf("the rows of one seed differ:\n%s", difference)
	}
	if slices.Equal(first, rows(8)) {
		t.Error("the rows of two seeds are equal")
	}
}

// rows returns all rows, sorted, without the ids of new rows.
func (w *world) rows() (list []string) {
	w.t.Helper()
	newID := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	for _, table := range w.texts("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'goose%' AND name <> 'installation'") {
		columns := w.texts("SELECT name FROM pragma_table_info(?)", table)
		for _, row := range w.texts("SELECT '" + table + " ' || quote(" + strings.Join(columns, ") || ' ' || quote(") + ") FROM " + table) {
			list = append(list, newID.ReplaceAllString(row, "new"))
		}
	}
	slices.Sort(list)
	return list
}

// A directory whose clock ran ahead goes on from there, with commands and outages that were in progress.
func TestKeptDirectoryGoesOn(t *testing.T) {
	dir, ahead := t.TempDir(), begin().AddDate(50, 0, 0) // a fixed time, so that each run simulates the same
	w := newWorld(t, dir, ahead, 1)
	w.advance(20 * time.Minute)
	left := w.clock()
	w.close()

	backend, err := service.Open(t.Context(), service.Options{DataDir: dir})
	testkit.Must(t, err)
	start, err := simulation.Start(t.Context(), backend.Store())
	testkit.Must(t, errors.Join(err, backend.Close()))
	if start.Before(left.Add(-time.Minute)) || start.After(left) {
		t.Fatalf("the data ended at %v, and goes on at %v", left, start)
	}
	again := newWorld(t, dir, start, 1)
	defer again.close()
	before := again.count("SELECT count(*) FROM incidents")
	again.advance(40 * time.Minute)
	again.none("gaps in metrics", `SELECT name FROM servers s WHERE last_seen_at IS NOT NULL AND
		(SELECT count(*) FROM server_metrics m WHERE m.server_id = s.id AND m.at > ?) < 35`, ahead.UnixNano())
	again.none("commands that were left", "SELECT id FROM server_commands WHERE status IN ('queued', 'running') AND created_at BETWEEN ? AND ?",
		ahead.UnixNano(), start.UnixNano())
	again.none("outages that were left", `SELECT i.title FROM incidents i JOIN monitors m ON m.incident_id = i.id
		WHERE m.interval_seconds <= 120 AND i.created_at < ? AND m.status = 'down' AND m.last_status_change_at < ?`,
		start.UnixNano(), start.UnixNano())
	if after := again.count("SELECT count(*) FROM incidents"); after <= before {
		t.Errorf("%d incidents before, %d after", before, after)
	}
}

// The clock may be far ahead of the data, for example after a week: the data goes on at the present.
func TestStart_IsThePresentForOldData(t *testing.T) {
	w := newWorld(t, t.TempDir(), begin(), 1)
	defer w.close()
	before := time.Now()
	start, err := simulation.Start(t.Context(), w.backend.Store())
	testkit.Must(t, err)
	if start.Before(before) || start.After(time.Now()) {
		t.Errorf("got %v at %v", start, before)
	}
}

func TestClock_RunsAtItsSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := simulation.Clock(begin(), 60)
		timer := time.NewTimer(1500 * time.Millisecond)
		<-timer.C
		if got := clock().Sub(begin()); got != 90*time.Second {
			t.Errorf("1.5 s are %v", got)
		}
	})
}

// An event that fails does not stop the others, and is repeated.
func TestAdvance_RepeatsEventsThatFailed(t *testing.T) {
	w := newWorld(t, t.TempDir(), begin(), 1)
	defer w.close()
	w.exec("CREATE TRIGGER broken BEFORE INSERT ON monitor_checks BEGIN SELECT raise(ABORT, 'broken'); END")
	w.now.Add(3 * time.Minute.Nanoseconds())
	if err := w.Advance(t.Context(), w.clock()); err == nil || !strings.Contains(err.Error(), "check Booking API") {
		t.Errorf("got %v", err)
	}
	if n := w.count("SELECT count(DISTINCT at) FROM server_metrics WHERE at > ?", begin().UnixNano()); n < 3 {
		t.Errorf("agents reported %d times while checks failed", n)
	}
	w.exec("DROP TRIGGER broken")
	w.advance(5 * time.Minute)
	if n := w.count("SELECT count(DISTINCT monitor_id) FROM monitor_checks WHERE checked_at > ?", begin().UnixNano()); n < 5 {
		t.Errorf("%d monitors were checked", n)
	}
}

// exec executes a statement on a connection of its own.
func (w *world) exec(statement string) {
	w.t.Helper()
	_, err := storetest.Open(w.t, w.dir, "").ExecContext(w.t.Context(), statement)
	testkit.Must(w.t, err)
}

// Incidents of clients stay as the clients leave them, also when there are few others.
func TestIncidentsOfClientsAreLeftAlone(t *testing.T) {
	w := newWorld(t, t.TempDir(), begin(), 1)
	defer w.close()
	team := w.texts("SELECT id FROM teams WHERE name = 'Harbour'")[0]
	created, err := w.backend.Incidents().CreateIncident(t.Context(), &incidentv1.CreateIncidentRequest{
		TeamId: team, Title: "Of a client", Message: "It stays.", Status: incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING,
		Impact: incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR, Actor: &incidentv1.Actor{TokenId: uuid.NewString(), IpAddress: "192.0.2.1"},
	})
	testkit.Must(t, err)
	w.exec("UPDATE incidents SET status = 'resolved', resolved_at = created_at WHERE title <> 'Of a client'")
	w.advance(3 * time.Hour)
	if n := w.count("SELECT count(*) FROM incidents WHERE title NOT LIKE '% is down' AND created_at > ?", begin().UnixNano()); n < 3 {
		t.Errorf("people responded to %d incidents", n)
	}
	if n := w.count("SELECT count(*) FROM incident_updates WHERE incident_id = ?", created.GetIncident().GetId()); n != 1 {
		t.Errorf("the client's incident has %d updates", n)
	}
}

func TestRun_MovesTheDataUntilItsContextEnds(t *testing.T) {
	w := newWorld(t, t.TempDir(), begin(), 1)
	defer w.close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	w.now.Add(2 * time.Minute.Nanoseconds())
	testkit.Eventually(t, "metrics", func() bool {
		return w.count("SELECT count(*) FROM server_metrics WHERE at > ?", begin().UnixNano()) > 0
	})
	stop()
	<-ended
}
