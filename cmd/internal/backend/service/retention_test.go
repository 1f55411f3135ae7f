package service_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

const hour, day = time.Hour, 24 * time.Hour

func (s *system) maintain() {
	s.t.Helper()
	testkit.Must(s.t, s.backend.Maintain(s.t.Context()))
}

// report inserts a point with the values a, b and c.
func (s *system) report(server string, at time.Time, a, b, c float64) {
	s.t.Helper()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertServerMetricAnyTeam(ctx, query.InsertServerMetricAnyTeamParams{
			ServerID: server, At: at.UnixNano(), CpuPercent: a, RamUsedMb: b, RamTotalMb: 4096, DiskUsedGb: c, DiskTotalGb: 80,
		})
	})
}

func ranges() []fleetv1.MetricRange {
	return []fleetv1.MetricRange{
		fleetv1.MetricRange_METRIC_RANGE_LAST_1H, fleetv1.MetricRange_METRIC_RANGE_LAST_24H,
		fleetv1.MetricRange_METRIC_RANGE_LAST_7D, fleetv1.MetricRange_METRIC_RANGE_LAST_30D,
	}
}

// addServer adds a server to a team.
func (s *system) addServer(team string) (id string) {
	s.t.Helper()
	id = uuid.NewString()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertServer(ctx, query.InsertServerParams{ID: id, TeamID: team, Name: id, Tags: "[]"})
	})
	return id
}

// Two backends get the same points, and one of them is maintained. The series are equal to the last
// bit.
func TestMaintenanceDoesNotChangeSeries(t *testing.T) {
	maintained := startSystem(t)
	untouched := startOn(t, t.TempDir(), maintained.clock)
	team1, team2 := maintained.team("harbour"), untouched.team("harbour")
	value := rapid.OneOf(rapid.Float64Range(0, 100), rapid.Float64Range(-1e300, 1e300), rapid.Just(1e-300), rapid.Just(0.1))
	gap := rapid.OneOf(rapid.Int64Range(1, int64(hour)), rapid.Int64Range(1, int64(9*day)), rapid.Just(int64(hour)), rapid.Just(int64(time.Minute)))
	rapid.Check(t, func(rt *rapid.T) {
		server1, server2 := maintained.addServer(team1.id), untouched.addServer(team2.id)
		for range rapid.IntRange(1, 60).Draw(rt, "points") {
			maintained.clock.Move(time.Duration(gap.Draw(rt, "gap")))
			now := maintained.clock.Now()
			a, b, c := value.Draw(rt, "a"), value.Draw(rt, "b"), value.Draw(rt, "c")
			maintained.report(server1, now, a, b, c)
			untouched.report(server2, now, a, b, c)
			if rapid.IntRange(0, 4).Draw(rt, "then") > 0 {
				continue
			}
			maintained.maintain()
			for _, r := range ranges() {
				if got, want := maintained.seriesOf(team1.id, server1, r), untouched.seriesOf(team2.id, server2, r); !proto.Equal(got, want) {
					rt.Fatalf("%v at %v: got %v, want %v", r, now, got, want)
				}
			}
		}
	})
	maintained.clock.Move(3 * day)
	maintained.maintain()
	if rows := maintained.count("server_metric_hours"); rows == 0 {
		t.Error("there are no rollups")
	}
	if kept, all := maintained.count("server_metrics"), untouched.count("server_metrics"); kept >= all {
		t.Errorf("%d of %d raw points are left", kept, all)
	}
}

func (s *system) seriesOf(team, server string, r fleetv1.MetricRange) *fleetv1.GetServerMetricsResponse {
	s.t.Helper()
	response, err := s.fleet.GetServerMetrics(s.t.Context(), &fleetv1.GetServerMetricsRequest{TeamId: team, ServerId: server, Range: r})
	testkit.Must(s.t, err)
	return response
}

// An hour is rolled up two hours after its end. A point that arrives later is in the raw series
// only.
func TestLatePointsDoNotChangeRollups(t *testing.T) {
	s, own := startTeam(t)
	began := s.clock.Now().Truncate(hour)
	s.report(own.server, began, 10, 20, 30)
	s.clock.Move(began.Add(3*hour - 1).Sub(s.clock.Now()))
	for want := range 2 {
		s.maintain()
		if rows := s.count("server_metric_hours"); rows != want {
			t.Errorf("%d rollups, want %d", rows, want)
		}
		s.clock.Move(1)
	}
	s.report(own.server, began.Add(time.Minute), 90, 90, 90)
	s.maintain()
	week := s.seriesOf(own.id, own.server, fleetv1.MetricRange_METRIC_RANGE_LAST_7D).GetPoints()
	if len(week) != 1 || week[0].GetCpuPercent() != 10 {
		t.Errorf("hourly series %v", week)
	}
	if raw := s.seriesOf(own.id, own.server, fleetv1.MetricRange_METRIC_RANGE_LAST_24H).GetPoints(); len(raw) != 2 {
		t.Errorf("raw series %v", raw)
	}
}

// Each case inserts a row a minute before its retention ends, and one a minute after it ended.
func TestRowsAreDeletedAfterTheirRetention(t *testing.T) {
	s, own := startTeam(t)
	now := s.clock.Now()
	incident := s.create(newIncident(own, "Old"))
	id := uuid.NewString
	subscriber := id()
	s.exec(`INSERT INTO subscribers (id, team_id, status_page_id, channel, address, created_at)
		VALUES (?, ?, ?, 'email', 'kept@customer.example', 0)`, subscriber, own.id, own.page)
	update := storetest.Column[string](t, s.file(), "SELECT id FROM incident_updates")[0]
	notification := func(at int64) string {
		n := id()
		s.exec(`INSERT INTO notifications (id, team_id, status_page_id, incident_id, update_id, event, suppressed, created_at)
			VALUES (?, ?, ?, ?, ?, 'incident.created', 0, ?)`, n, own.id, own.page, incident.GetId(), update, at)
		return n
	}
	deliver := func(state, notification string, finished *int64) {
		s.exec(`INSERT INTO deliveries (id, subscriber_id, channel, notification_id, state, created_at, finished_at)
			VALUES (?, ?, 'email', ?, ?, 0, ?)`, id(), subscriber, notification, state, finished)
	}
	command := func(at int64, finished *int64) {
		s.exec(`INSERT INTO server_commands (id, team_id, server_id, command, source, status, created_at, finished_at)
			VALUES (?, ?, ?, 'true', 'api', 'completed', ?, ?)`, id(), own.id, own.server, at, finished)
	}
	for _, c := range []struct {
		table     string
		retention time.Duration
		insert    func(at int64)
		kept      bool // also after the retention
	}{
		{"monitor_checks", 31 * day, func(at int64) { s.check(own.monitor, time.Unix(0, at), "up") }, false},
		{"server_metric_hours", 31 * day, func(at int64) {
			s.exec("INSERT INTO server_metric_hours VALUES (?, ?, 1, 1, 1, 1, 1)", own.server, at)
		}, false},
		{"server_commands", 90 * day, func(at int64) { command(at, &at) }, false},
		{"server_commands", 90 * day, func(at int64) { command(at, nil) }, true},
		{"audit_entries", 400 * day, func(at int64) {
			s.exec(`INSERT INTO audit_entries VALUES (?, ?, 'incident.created', 'incident', '', '', '', '', ?)`, id(), own.id, at)
		}, false},
		{"idempotency_keys", day, func(at int64) {
			s.exec(`INSERT INTO idempotency_keys (team_id, key, fingerprint, response, created_at) VALUES (?, ?, zeroblob(32), x'', ?)`, own.id, id(), at)
		}, false},
		{"deliveries", 7 * day, func(at int64) { deliver("delivered", notification(now.UnixNano()), &at) }, false},
		{"deliveries", 30 * day, func(at int64) { deliver("dead", notification(now.UnixNano()), &at) }, false},
		{"deliveries", 300 * day, func(int64) { deliver("waiting", notification(now.UnixNano()), nil) }, true},
		{"notifications", 30 * day, func(at int64) { notification(at) }, false},
		{"notifications", 30 * day, func(at int64) { deliver("waiting", notification(at), nil) }, true},
	} {
		before := s.count(c.table)
		limit := now.Add(-c.retention)
		c.insert(limit.Add(time.Minute).UnixNano())
		c.insert(limit.Add(-time.Minute).UnixNano())
		s.maintain()
		want := 1
		if c.kept {
			want = 2
		}
		if got := s.count(c.table) - before; got != want {
			t.Errorf("%s: %d of two rows are left, want %d", c.table, got, want)
		}
	}
}

func TestMaintenanceDeletesMoreThanOneBatch(t *testing.T) {
	s := startSystem(t)
	first, second := s.team("harbour"), s.team("lighthouse")
	s.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1750)
		INSERT INTO monitor_checks SELECT m.id, i, 'up', 1 FROM n, monitors m`)
	s.check(first.monitor, s.clock.Now(), "up")
	s.check(second.monitor, s.clock.Now(), "up")
	s.maintain()
	if rows := s.count("monitor_checks"); rows != 2 {
		t.Errorf("%d checks are left", rows)
	}
}

func TestMaintenanceRunsEachHour(t *testing.T) {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		backend, err := service.Open(t.Context(), service.Options{
			DataDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		testkit.Must(t, err)
		made, err := backend.CreateTeam(t.Context(), "harbour", service.PlanAI)
		testkit.Must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- backend.RunMaintenance(ctx) }()
		server := uuid.NewString()
		testkit.Must(t, backend.Store().Write(ctx, func(q *query.Queries) error {
			return firstError(q.InsertServer(ctx, query.InsertServerParams{ID: server, TeamID: made.ID, Tags: "[]"}),
				q.InsertServerMetricAnyTeam(ctx, query.InsertServerMetricAnyTeamParams{ServerID: server, At: time.Now().UnixNano()}))
		}))
		<-time.After(50*hour + time.Minute)
		stop()
		testkit.Must(t, <-done)
		testkit.Must(t, backend.Close())
	})
	for _, want := range []string{"rollups_written=1", "raw_points_deleted=1"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log has not one %q:\n%s", want, &log)
		}
	}
}
