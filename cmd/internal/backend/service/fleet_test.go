package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/test/testkit"
	"opsgate/proto/contract"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// Rows with equal names or positions are ordered by their ids, which the demo data cannot show.
func TestListsAreOrdered(t *testing.T) {
	s := startSystem(t)
	own := s.team("m")
	for _, key := range []string{"b", "a", "z", "a", "a"} {
		position := int64(key[0])
		s.insert(func(ctx context.Context, q *query.Queries) error {
			return firstError(
				q.InsertServer(ctx, query.InsertServerParams{ID: uuid.NewString(), TeamID: own.id, Name: key, Tags: "[]"}),
				q.InsertServerGroup(ctx, query.InsertServerGroupParams{ID: uuid.NewString(), TeamID: own.id, Position: position}),
				q.InsertScheduledCommand(ctx, query.InsertScheduledCommandParams{
					ID: uuid.NewString(), TeamID: own.id, ServerID: own.server, Name: key,
				}),
				q.InsertMonitor(ctx, query.InsertMonitorParams{ID: uuid.NewString(), TeamID: own.id, Name: key, Status: "up"}),
				q.InsertStatusPage(ctx, query.InsertStatusPageParams{ID: uuid.NewString(), TeamID: own.id, Name: key, UniqueHostname: uuid.NewString()}),
				q.InsertComponent(ctx, query.InsertComponentParams{
					ID: uuid.NewString(), TeamID: own.id, StatusPageID: own.page, Position: position, Status: "operational",
				}),
			)
		})
	}
	for method, resource := range map[string]string{
		"fleet/ListServers": "", "fleet/ListServerGroups": "", "fleet/ListScheduledCommands": own.server, "monitoring/ListMonitors": "",
		"incident/ListStatusPages": "", "incident/GetStatusPage": own.page,
	} {
		m := contract.Methods()[slices.IndexFunc(contract.Methods(), func(m contract.Method) bool { return m.String() == method })]
		response, err := s.call(t, m, own.id, resource)
		testkit.Must(t, err)
		keys := orderOf(t, response)
		if len(keys) < 5 || !slices.IsSorted(keys) {
			t.Errorf("%s: %q", method, keys)
		}
	}
}

// orderOf returns the position, the name and the id of each row of a response.
func orderOf(t *testing.T, response proto.Message) (keys []string) {
	t.Helper()
	text, err := protojson.Marshal(response)
	testkit.Must(t, err)
	var fields map[string]json.RawMessage
	testkit.Must(t, json.Unmarshal(text, &fields))
	for _, field := range fields {
		var rows []struct {
			Position int
			Name, ID string
		}
		if json.Unmarshal(field, &rows) == nil {
			for _, row := range rows {
				keys = append(keys, fmt.Sprintf("%03d %s %s", row.Position, row.Name, row.ID))
			}
		}
	}
	return keys
}

func TestCommandHistoryByPage(t *testing.T) {
	s, own := startTeam(t)
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
	s, own := startTeam(t)
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
	s, own := startTeam(t)
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
