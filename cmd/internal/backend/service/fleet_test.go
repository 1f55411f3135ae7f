package service_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/test/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

func TestServersAreOrderedByNameAndID(t *testing.T) {
	s := startSystem(t)
	own := s.team("m")
	s.insert(func(ctx context.Context, q *query.Queries) error {
		for _, name := range []string{"b", "a", "z", "a", "a"} {
			err := q.InsertServer(ctx, query.InsertServerParams{ID: uuid.NewString(), TeamID: own.id, Name: name, Tags: "[]"})
			if err != nil {
				return err
			}
		}
		return nil
	})
	response, err := s.fleet.ListServers(t.Context(), &fleetv1.ListServersRequest{TeamId: own.id})
	testkit.Must(t, err)
	order := func(a, b *fleetv1.Server) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetId(), b.GetId()))
	}
	if servers := response.GetServers(); len(servers) != 6 || !slices.IsSortedFunc(servers, order) {
		t.Errorf("servers %v", servers)
	}
}

func TestGroupsAreOrderedByPosition(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	group := uuid.NewString()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return firstError(
			q.InsertServerGroup(ctx, query.InsertServerGroupParams{ID: uuid.NewString(), TeamID: own.id, Name: "a", Position: 3}),
			q.InsertServerGroup(ctx, query.InsertServerGroupParams{ID: uuid.NewString(), TeamID: own.id, Name: "b", Position: -1}),
			q.InsertServerGroup(ctx, query.InsertServerGroupParams{ID: group, TeamID: own.id, Name: "c", Position: 2}),
		)
	})
	response, err := s.fleet.ListServerGroups(t.Context(), &fleetv1.ListServerGroupsRequest{TeamId: own.id})
	testkit.Must(t, err)
	names := ""
	for _, g := range response.GetServerGroups() {
		names += g.GetName()
	}
	if names != "bca" {
		t.Errorf("order %q", names)
	}
}

func TestGetServerReturnsStoredFields(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	got, err := s.fleet.GetServer(t.Context(), &fleetv1.GetServerRequest{TeamId: own.id, ServerId: own.server})
	testkit.Must(t, err)
	server := got.GetServer()
	if !slices.Equal(server.GetTags(), []string{"a", "b"}) || server.GroupId != nil || server.LastSeenAt != nil ||
		server.CreatedAt == nil {
		t.Errorf("server %v", server)
	}
}

func TestCommandHistoryByPage(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	const total = 23
	var newestFirst []string
	s.insert(func(ctx context.Context, q *query.Queries) error {
		for i := range int64(total) {
			id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
			newestFirst = append([]string{id}, newestFirst...)
			err := q.InsertServerCommand(ctx, query.InsertServerCommandParams{
				ID: id, TeamID: own.id, ServerID: own.server, Status: "queued", CreatedAt: i / 3, // several at one time
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	rapid.Check(t, func(rt *rapid.T) {
		page, size := rapid.IntRange(1, 30).Draw(rt, "page"), rapid.IntRange(1, 100).Draw(rt, "size")
		response, err := s.fleet.ListServerCommands(t.Context(), &fleetv1.ListServerCommandsRequest{
			TeamId: own.id, ServerId: own.server, Page: int32(page), PageSize: int32(size),
		})
		testkit.Must(t, err)
		var got []string
		for _, c := range response.GetCommands() {
			got = append(got, c.GetId())
		}
		want := newestFirst[min(total, (page-1)*size):min(total, page*size)]
		if !slices.Equal(got, want) || response.GetTotal() != total {
			rt.Fatalf("got %v of %d, want %v", got, response.GetTotal(), want)
		}
	})
	for _, c := range []struct {
		page, size int32
		field      string
	}{{0, 20, "page"}, {-1, 20, "page"}, {1, 0, "page_size"}, {1, 101, "page_size"}, {math.MaxInt32, 2, "page"}} {
		_, err := s.fleet.ListServerCommands(t.Context(), &fleetv1.ListServerCommandsRequest{
			TeamId: own.id, ServerId: own.server, Page: c.page, PageSize: c.size,
		})
		if fields := violated(t, err); fields[c.field] == "" || len(fields) != 1 {
			t.Errorf("page %d of %d: %v", c.page, c.size, fields)
		}
	}
}

// A sample is a point whose values are all multiples of one number.
func (s *system) sample(server string, at time.Time, value float64) {
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertServerMetricAnyTeam(ctx, query.InsertServerMetricAnyTeamParams{
			ServerID: server, At: at.UnixNano(), CpuPercent: value, RamUsedMb: 2 * value, RamTotalMb: 3 * value,
			DiskUsedGb: 4 * value, DiskTotalGb: 5 * value,
		})
	})
}

func (s *system) metrics(t team, r fleetv1.MetricRange) *fleetv1.GetServerMetricsResponse {
	s.t.Helper()
	response, err := s.fleet.GetServerMetrics(s.t.Context(),
		&fleetv1.GetServerMetricsRequest{TeamId: t.id, ServerId: t.server, Range: r})
	testkit.Must(s.t, err)
	return response
}

// The test computes the means itself.
func TestRollupsAreMeansOfRawPoints(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	r := rand.New(rand.NewPCG(1, 2))
	raw := map[time.Time][]float64{}
	now := s.clock.Now()
	for at := now.Add(-8 * 24 * time.Hour); at.Before(now); at = at.Add(time.Duration(1+r.IntN(150)) * time.Minute) {
		value := 100 * r.Float64()
		s.sample(own.server, at, value)
		raw[at.Truncate(time.Hour)] = append(raw[at.Truncate(time.Hour)], value)
	}
	s.sample(own.server, now.Add(time.Hour), 1e6) // an agent's clock is ahead

	response := s.metrics(own, fleetv1.MetricRange_METRIC_RANGE_LAST_7D)
	if response.GetResolution() != fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY {
		t.Errorf("resolution %v", response.GetResolution())
	}
	points := response.GetPoints()
	for hour := now.Add(-7 * 24 * time.Hour).Truncate(time.Hour).Add(time.Hour); !hour.After(now); hour = hour.Add(time.Hour) {
		if raw[hour] == nil {
			continue
		}
		if len(points) == 0 || !points[0].GetAt().AsTime().Equal(hour) {
			t.Fatalf("no point for %v, but %v", hour, points)
		}
		sum := 0.0
		for _, value := range raw[hour] {
			sum += value
		}
		mean, p := sum/float64(len(raw[hour])), points[0]
		got := []float64{p.GetCpuPercent(), p.GetRamUsedMb() / 2, p.GetRamTotalMb() / 3, p.GetDiskUsedGb() / 4, p.GetDiskTotalGb() / 5}
		for i, value := range got {
			if math.Abs(value-mean) > 1e-9 {
				t.Errorf("hour %v, figure %d: %v, want %v", hour, i, value, mean)
			}
		}
		points = points[1:]
	}
	if len(points) != 0 {
		t.Errorf("%d points too many: %v", len(points), points)
	}
}

func TestRawPointsAreInRangeAndOldestFirst(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	now := s.clock.Now()
	for i, ago := range []time.Duration{24*time.Hour + 1, 24 * time.Hour, time.Hour + 1, time.Hour, time.Minute, 0, -1} {
		s.sample(own.server, now.Add(-ago), float64(i))
	}
	for r, want := range map[fleetv1.MetricRange][]float64{
		fleetv1.MetricRange_METRIC_RANGE_LAST_1H:  {3, 4, 5},
		fleetv1.MetricRange_METRIC_RANGE_LAST_24H: {1, 2, 3, 4, 5},
	} {
		response := s.metrics(own, r)
		var got []float64
		for _, p := range response.GetPoints() {
			got = append(got, p.GetCpuPercent())
		}
		if !slices.Equal(got, want) || response.GetResolution() != fleetv1.MetricResolution_METRIC_RESOLUTION_RAW {
			t.Errorf("%v: %v, want %v", r, got, want)
		}
	}
}

func TestUnknownRangesAreInvalid(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	for _, r := range []fleetv1.MetricRange{0, 5, -1} {
		_, err := s.fleet.GetServerMetrics(t.Context(),
			&fleetv1.GetServerMetricsRequest{TeamId: own.id, ServerId: own.server, Range: r})
		if fields := violated(t, err); fields["range"] == "" {
			t.Errorf("range %d: %v", r, fields)
		}
	}
}

func TestScheduledCommandsAreOrderedByName(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	ran, code := start().UnixNano(), int64(3)
	s.insert(func(ctx context.Context, q *query.Queries) error {
		never := query.InsertScheduledCommandParams{ID: uuid.NewString(), TeamID: own.id, ServerID: own.server, Name: "vacuum"}
		failing := query.InsertScheduledCommandParams{
			ID: uuid.NewString(), TeamID: own.id, ServerID: own.server, Name: "back up", Command: "pg_dump", Cron: "0 1 * * *",
			Enabled: true, LastRunAt: &ran, LastExitCode: &code, ConsecutiveFailures: 2,
		}
		return firstError(q.InsertScheduledCommand(ctx, never), q.InsertScheduledCommand(ctx, failing))
	})
	response, err := s.fleet.ListScheduledCommands(t.Context(),
		&fleetv1.ListScheduledCommandsRequest{TeamId: own.id, ServerId: own.server})
	testkit.Must(t, err)
	list := response.GetScheduledCommands()
	if len(list) != 2 || list[0].GetName() != "back up" || list[1].LastRunAt != nil || list[1].LastExitCode != nil {
		t.Fatalf("scheduled commands %v", list)
	}
	if c := list[0]; !c.GetEnabled() || c.GetLastExitCode() != 3 || c.GetConsecutiveFailures() != 2 ||
		!c.GetLastRunAt().AsTime().Equal(start()) {
		t.Errorf("scheduled command %v", c)
	}
}
