package service

import (
	"context"
	"slices"
	"time"

	"opsgate/cmd/internal/backend/store/query"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

const day = 24 * time.Hour

func (s *fleetService) GetServerMetrics(
	ctx context.Context, r *fleetv1.GetServerMetricsRequest,
) (*fleetv1.GetServerMetricsResponse, error) {
	length, known := map[fleetv1.MetricRange]time.Duration{
		fleetv1.MetricRange_METRIC_RANGE_LAST_1H: time.Hour, fleetv1.MetricRange_METRIC_RANGE_LAST_24H: day,
		fleetv1.MetricRange_METRIC_RANGE_LAST_7D: 7 * day, fleetv1.MetricRange_METRIC_RANGE_LAST_30D: 30 * day,
	}[r.GetRange()]
	if !known {
		return nil, invalidField("range", "must be 1h, 24h, 7d or 30d")
	}
	now := s.options.Clock()
	response := &fleetv1.GetServerMetricsResponse{}
	return response, s.withServer(ctx, r, func(q *query.Queries, of query.Server) error {
		if length <= day {
			response.Resolution = fleetv1.MetricResolution_METRIC_RESOLUTION_RAW
			err := list(&response.Points, "metrics", pointMessage)(q.ListRawMetrics(ctx, query.ListRawMetricsParams{
				TeamID: of.TeamID, ServerID: of.ID, Since: now.Add(-length).UnixNano(), Until: now.UnixNano(),
			}))
			slices.Reverse(response.Points)
			return err
		}
		response.Resolution = fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY
		return list(&response.Points, "hours", func(row query.ListHourlyMetricsRow) *fleetv1.MetricPoint {
			return pointMessage(query.ListRawMetricsRow(row))
		})(q.ListHourlyMetrics(ctx, query.ListHourlyMetricsParams{
			TeamID: of.TeamID, ServerID: of.ID, Since: firstHour(now.Add(-length)), Until: now.UnixNano(),
		}))
	})
}

// firstHour returns the first start of an hour at or after a time. An hour that is only partly in
// the range would be the mean of some of its points, and would start outside the range.
func firstHour(since time.Time) int64 {
	hour := since.Truncate(time.Hour)
	if hour.Before(since) {
		hour = hour.Add(time.Hour)
	}
	return hour.UnixNano()
}

func pointMessage(row query.ListRawMetricsRow) *fleetv1.MetricPoint {
	return &fleetv1.MetricPoint{
		At:          timestamp(row.At),
		CpuPercent:  row.CpuPercent,
		RamUsedMb:   row.RamUsedMb,
		RamTotalMb:  row.RamTotalMb,
		DiskUsedGb:  row.DiskUsedGb,
		DiskTotalGb: row.DiskTotalGb,
	}
}
