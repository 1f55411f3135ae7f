package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"opsgate/cmd/internal/backend/store/query"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

const day = 24 * time.Hour

func (s *fleetService) GetServerMetrics(
	ctx context.Context, r *fleetv1.GetServerMetricsRequest,
) (*fleetv1.GetServerMetricsResponse, error) {
	length, known := rangeLength(r.GetRange())
	if !known {
		var problems violations
		problems.add("range", "must be 1h, 24h, 7d or 30d")
		return nil, problems.err()
	}
	now := s.clock()
	response := &fleetv1.GetServerMetricsResponse{}
	return response, s.withServer(ctx, r, func(q *query.Queries, id string) (err error) {
		if length <= day {
			response.Resolution = fleetv1.MetricResolution_METRIC_RESOLUTION_RAW
			response.Points, err = rawPoints(ctx, q, query.ListRawMetricsParams{
				TeamID: r.GetTeamId(), ServerID: id, Since: now.Add(-length).UnixNano(), Until: now.UnixNano(),
			})
			return err
		}
		response.Resolution = fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY
		response.Points, err = hourlyPoints(ctx, q, query.ListHourlyMetricsParams{
			TeamID: r.GetTeamId(), ServerID: id, Since: firstHour(now.Add(-length)), Until: now.UnixNano(),
		})
		return err
	})
}

// rangeLength returns the length of a range, and whether the range is known.
func rangeLength(r fleetv1.MetricRange) (length time.Duration, known bool) {
	switch r {
	case fleetv1.MetricRange_METRIC_RANGE_LAST_1H:
		return time.Hour, true
	case fleetv1.MetricRange_METRIC_RANGE_LAST_24H:
		return day, true
	case fleetv1.MetricRange_METRIC_RANGE_LAST_7D:
		return 7 * day, true
	case fleetv1.MetricRange_METRIC_RANGE_LAST_30D:
		return 30 * day, true
	case fleetv1.MetricRange_METRIC_RANGE_UNSPECIFIED:
	}
	return 0, false
}

// firstHour returns the first start of an hour at or after a time. An hour that is only partly in the range would be the mean of some of
// its points, and would start outside the range.
func firstHour(since time.Time) int64 {
	hour := since.Truncate(time.Hour)
	if hour.Before(since) {
		hour = hour.Add(time.Hour)
	}
	return hour.UnixNano()
}

func rawPoints(
	ctx context.Context, q *query.Queries, arg query.ListRawMetricsParams,
) ([]*fleetv1.MetricPoint, error) {
	rows, err := q.ListRawMetrics(ctx, arg)
	if err != nil {
		return nil, fmt.Errorf("list the metrics: %w", err)
	}
	slices.Reverse(rows)
	return convert(rows, pointMessage), nil
}

func hourlyPoints(
	ctx context.Context, q *query.Queries, arg query.ListHourlyMetricsParams,
) ([]*fleetv1.MetricPoint, error) {
	rows, err := q.ListHourlyMetrics(ctx, arg)
	if err != nil {
		return nil, fmt.Errorf("roll up the metrics: %w", err)
	}
	return convert(rows, func(row query.ListHourlyMetricsRow) *fleetv1.MetricPoint {
		return pointMessage(query.ListRawMetricsRow(row))
	}), nil
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
