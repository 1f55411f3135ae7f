package conformance

import (
	"context"
	"fmt"
	"math"
	"time"

	fleetv1 "opsgate/proto/ops/fleet/v1"
)

const (
	lastHour = fleetv1.MetricRange_METRIC_RANGE_LAST_1H
	lastDay  = fleetv1.MetricRange_METRIC_RANGE_LAST_24H
	lastWeek = fleetv1.MetricRange_METRIC_RANGE_LAST_7D
)

func metricChecks() []Check {
	return []Check{
		{
			Name: "fleet/GetServerMetrics/order", Needs: []Kind{Server}, run: pointsAreOrdered,
			Sentence: "Points are ordered oldest first.",
		},
		{
			Name: "fleet/GetServerMetrics/range-known", Needs: []Kind{Server},
			Sentence: "INVALID_ARGUMENT naming `range` if it is unspecified or unknown.",
			run: refuses("fleet/GetServerMetrics", "range", func(_ *subject, own Team) []invalidRequest {
				request := func(r fleetv1.MetricRange) *fleetv1.GetServerMetricsRequest {
					return &fleetv1.GetServerMetricsRequest{TeamId: own.ID, ServerId: own.Resources[Server], Range: r}
				}
				const unknown = 99
				return []invalidRequest{{"no range", request(0)}, {"an unknown range", request(unknown)}}
			}),
		},
		{
			Name: "fleet/GetServerMetrics/within-range", Needs: []Kind{Server}, run: pointsAreWithinRange,
			Sentence: "GetServerMetrics returns the points of a range that ends now.",
		},
		{
			Name: "fleet/GetServerMetrics/resolution", Needs: []Kind{Server}, run: resolutionFollowsRange,
			Sentence: "Ranges of up to 24 hours consist of raw points, longer ranges of hourly rollups at the start of the hour.",
		},
		{
			Name: "fleet/GetServerMetrics/rollup", Needs: []Kind{Server}, run: rollupsAreMeans,
			Sentence: "An hourly point is the mean of the hour's raw points.",
		},
	}
}

// metrics returns the metrics of the first team's server.
func (s *subject) metrics(ctx context.Context, timeRange fleetv1.MetricRange) (*fleetv1.GetServerMetricsResponse, error) {
	own := s.teams[0]
	return s.fleet.GetServerMetrics(ctx, &fleetv1.GetServerMetricsRequest{TeamId: own.ID, ServerId: own.Resources[Server], Range: timeRange})
}

func pointRow(m *fleetv1.MetricPoint) row { return row{at: timeOf(m.GetAt())} }

func pointsAreOrdered(ctx context.Context, s *subject) error {
	for _, timeRange := range []fleetv1.MetricRange{lastDay, lastWeek} {
		response, err := s.metrics(ctx, timeRange)
		if err != nil {
			return err
		}
		if err := oldestFirst(rows(response.GetPoints(), pointRow)); err != nil {
			return err
		}
	}
	return nil
}

// skew is the maximum difference between the service's clock and ours.
const skew = 5 * time.Minute

func pointsAreWithinRange(ctx context.Context, s *subject) error {
	seen := 0
	for timeRange, length := range map[fleetv1.MetricRange]time.Duration{
		lastHour: time.Hour, lastDay: 24 * time.Hour, lastWeek: 7 * 24 * time.Hour,
	} {
		response, err := s.metrics(ctx, timeRange)
		if err != nil {
			return err
		}
		seen += len(response.GetPoints())
		from, until := s.now().Add(-length-skew), s.now().Add(skew)
		for _, p := range response.GetPoints() {
			if at := timeOf(p.GetAt()); at.Before(from) || at.After(until) {
				return expected("points between "+from.Format(time.RFC3339)+" and "+until.Format(time.RFC3339), "%v", pointRow(p))
			}
		}
	}
	if seen == 0 {
		return skip("the server has no metrics")
	}
	return nil
}

func resolutionFollowsRange(ctx context.Context, s *subject) error {
	for timeRange, want := range map[fleetv1.MetricRange]fleetv1.MetricResolution{
		lastHour: fleetv1.MetricResolution_METRIC_RESOLUTION_RAW,
		lastDay:  fleetv1.MetricResolution_METRIC_RESOLUTION_RAW,
		lastWeek: fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY,
	} {
		response, err := s.metrics(ctx, timeRange)
		if err != nil {
			return err
		}
		if got := response.GetResolution(); got != want {
			return expected(want.String()+" for "+timeRange.String(), "%v", got)
		}
		for _, p := range response.GetPoints() {
			at := timeOf(p.GetAt())
			if want == fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY && !at.Equal(at.Truncate(time.Hour)) {
				return expected("an hourly point at the start of an hour: "+at.Truncate(time.Hour).Format(time.RFC3339), "%v", pointRow(p))
			}
		}
	}
	return nil
}

// rollupsAreMeans compares the hours that ended and are completely in the last day.
func rollupsAreMeans(ctx context.Context, s *subject) error {
	raw, err := s.metrics(ctx, lastDay)
	if err != nil {
		return err
	}
	hourly, err := s.metrics(ctx, lastWeek)
	if err != nil {
		return err
	}
	type sum struct{ cpu, n float64 }
	sums := map[time.Time]sum{}
	for _, p := range raw.GetPoints() {
		hour := timeOf(p.GetAt()).Truncate(time.Hour)
		sums[hour] = sum{sums[hour].cpu + p.GetCpuPercent(), sums[hour].n + 1}
	}
	compared := 0
	for _, p := range hourly.GetPoints() {
		hour := timeOf(p.GetAt())
		total, ok := sums[hour]
		if !ok || hour.Before(s.now().Add(-23*time.Hour)) || hour.After(s.now().Add(-time.Hour-skew)) {
			continue
		}
		compared++
		const rounding = 0.01
		if mean := total.cpu / total.n; math.Abs(mean-p.GetCpuPercent()) > rounding {
			return expected(fmt.Sprintf("cpu_percent %v for the hour %s, the mean of its raw points", mean, hour.Format(time.RFC3339)),
				"cpu_percent %v", p.GetCpuPercent())
		}
	}
	if compared == 0 {
		return skip("the server has no metrics of a complete hour in the last day")
	}
	return nil
}
