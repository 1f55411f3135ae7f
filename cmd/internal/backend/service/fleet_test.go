package service_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/store/query"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// A sample is a point whose values are all multiples of one number.
func (s *system) sample(server string, at time.Time, value float64) {
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertServerMetricAnyTeam(ctx, query.InsertServerMetricAnyTeamParams{
			ServerID: server, At: at.UnixNano(), CpuPercent: value, RamUsedMb: 2 * value, RamTotalMb: 3 * value,
			DiskUsedGb: 4 * value, DiskTotalGb: 5 * value,
		})
	})
}

// Hourly points are the means of the points until now.
func TestPointsAreInRangeAndOldestFirst(t *testing.T) {
	s, own := startTeam(t)
	now := s.clock.Now() // 15:09
	for i, ago := range []time.Duration{24*time.Hour + 1, 24 * time.Hour, time.Hour + 1, time.Hour, time.Minute, 0, -1, -time.Hour} {
		s.sample(own.server, now.Add(-ago), float64(i))
	}
	const raw, hourly = fleetv1.MetricResolution_METRIC_RESOLUTION_RAW, fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY
	for _, c := range []struct {
		of         fleetv1.MetricRange
		resolution fleetv1.MetricResolution
		want       []float64
	}{
		{fleetv1.MetricRange_METRIC_RANGE_LAST_1H, raw, []float64{3, 4, 5}},
		{fleetv1.MetricRange_METRIC_RANGE_LAST_24H, raw, []float64{1, 2, 3, 4, 5}},
		{fleetv1.MetricRange_METRIC_RANGE_LAST_7D, hourly, []float64{0.5, 2.5, 4.5}},
	} {
		response := s.seriesOf(own.id, own.server, c.of)
		var got []float64
		for _, p := range response.GetPoints() {
			if p.GetRamUsedMb() != 2*p.GetCpuPercent() || p.GetDiskTotalGb() != 5*p.GetCpuPercent() {
				t.Errorf("point %v", p)
			}
			got = append(got, p.GetCpuPercent())
		}
		if !slices.Equal(got, c.want) || response.GetResolution() != c.resolution {
			t.Errorf("%v: %v, want %v", c.of, got, c.want)
		}
	}
}
