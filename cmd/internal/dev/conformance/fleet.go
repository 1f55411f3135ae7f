package conformance

import (
	"fmt"
	"math"
	"time"

	"opsgate/proto/contract"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

const (
	getServerMetrics   = "fleet/GetServerMetrics"
	listServerCommands = "fleet/ListServerCommands"
)

const (
	lastHour  = fleetv1.MetricRange_METRIC_RANGE_LAST_1H
	lastDay   = fleetv1.MetricRange_METRIC_RANGE_LAST_24H
	lastWeek  = fleetv1.MetricRange_METRIC_RANGE_LAST_7D
	lastMonth = fleetv1.MetricRange_METRIC_RANGE_LAST_30D
)

func fleetRules() []rule {
	metrics, commands := named(getServerMetrics), named(listServerCommands)
	return []rule{
		{name: "within-range", on: metrics, check: pointsAreWithinRange,
			sentence: "GetServerMetrics returns the points of a range that ends now."},
		{name: "resolution", on: metrics, check: resolutionFollowsRange,
			sentence: "Ranges of up to 24 hours consist of raw points, longer ranges of hourly rollups at the start of the " +
				"hour."},
		{name: "rollup", on: metrics, check: rollupsAreMeans,
			sentence: "An hourly point is the mean of the hour's raw points."},
		{name: "month", on: metrics, check: monthIsComplete,
			sentence: "The last 30 days have a point for each hour in which the server has reported."},
		{name: "pages", on: commands, check: pagesMatchOneLargePage,
			sentence: "ListServerCommands returns one page, and the total number of entries on all pages."},
		{name: "beyond", on: commands, check: pageBeyondIsEmpty,
			sentence: "A page beyond the end is empty, with the true total."},
		{name: "total", on: commands, check: totalCountsAllRows,
			sentence: "The total is the number of entries on all pages."},
		{name: "of-the-server", on: named(listServerCommands, "fleet/ListScheduledCommands"), check: rowsAreOfOneServer,
			sentence: "The method returns the entries of one server."},
	}
}

// A span is a row: a range of metrics, its length, and the resolution of its points.
type span struct {
	of         fleetv1.MetricRange
	length     time.Duration
	resolution fleetv1.MetricResolution
}

func spans() []span {
	const day = 24 * time.Hour
	return []span{
		{lastHour, time.Hour, fleetv1.MetricResolution_METRIC_RESOLUTION_RAW},
		{lastDay, day, fleetv1.MetricResolution_METRIC_RESOLUTION_RAW},
		{lastWeek, 7 * day, fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY},
		{lastMonth, 30 * day, fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY},
	}
}

func (p *probe) metrics(timeRange fleetv1.MetricRange) *fleetv1.GetServerMetricsResponse {
	return call[*fleetv1.GetServerMetricsResponse](p, getServerMetrics, fields{"range": timeRange})
}

// skew is the maximum difference between the service's clock and ours.
const skew = 5 * time.Minute

func pointsAreWithinRange(p *probe) {
	seen := 0
	for _, span := range spans() {
		from, until := p.Clock().Add(-span.length-skew), p.Clock().Add(skew)
		for _, point := range p.metrics(span.of).GetPoints() {
			seen++
			at := point.GetAt().AsTime()
			require(!at.Before(from) && !at.After(until),
				"points between "+from.Format(time.RFC3339)+" and "+until.Format(time.RFC3339), "%s", timeText(point.GetAt()))
		}
	}
	needs(seen > 0, "a server with metrics")
}

func resolutionFollowsRange(p *probe) {
	for _, span := range spans() {
		response := p.metrics(span.of)
		require(response.GetResolution() == span.resolution, span.resolution.String()+" for "+span.of.String(), "%v",
			response.GetResolution())
		needs(len(response.GetPoints()) > 0, "a server with metrics in the last hour")
		for _, point := range response.GetPoints() {
			at := point.GetAt().AsTime()
			hour := at.Truncate(time.Hour)
			require(span.resolution == fleetv1.MetricResolution_METRIC_RESOLUTION_RAW || at.Equal(hour),
				"an hourly point at the start of an hour: "+hour.Format(time.RFC3339), "%s", timeText(point.GetAt()))
		}
	}
}

// rollupsAreMeans compares the hours that ended and are completely in the last day.
func rollupsAreMeans(p *probe) {
	sums, samples := map[time.Time]map[string]float64{}, map[time.Time]float64{}
	for _, point := range p.metrics(lastDay).GetPoints() {
		hour := point.GetAt().AsTime().Truncate(time.Hour)
		if samples[hour]++; samples[hour] == 1 {
			sums[hour] = map[string]float64{}
		}
		for name, value := range measurements(point) {
			sums[hour][name] += value
		}
	}
	compared := 0
	for _, point := range p.metrics(lastWeek).GetPoints() {
		hour := point.GetAt().AsTime()
		if samples[hour] == 0 || hour.Before(p.Clock().Add(-23*time.Hour)) || hour.After(p.Clock().Add(-time.Hour-skew)) {
			continue
		}
		compared++
		for name, value := range measurements(point) {
			const rounding = 0.01
			mean := sums[hour][name] / samples[hour]
			require(math.Abs(mean-value) <= rounding,
				fmt.Sprintf("%s %v for the hour %s, the mean of its raw points", name, mean, hour.Format(time.RFC3339)), "%s %v",
				name, value)
		}
	}
	needs(compared > 0, "a server with metrics of a complete hour in the last day")
}

// measurements returns the numbers of a point by the names of their fields.
func measurements(p *fleetv1.MetricPoint) map[string]float64 {
	return map[string]float64{
		"cpu_percent": p.GetCpuPercent(), "ram_used_mb": p.GetRamUsedMb(), "ram_total_mb": p.GetRamTotalMb(),
		"disk_used_gb": p.GetDiskUsedGb(), "disk_total_gb": p.GetDiskTotalGb(),
	}
}

// monthIsComplete compares the last 30 days with the age of the metrics in the fixtures, with the
// last day, of which each hour has its point, also the one in progress, and with the last seven
// days.
func monthIsComplete(p *probe) {
	needs(p.own.MetricsDays > 0, "metrics_days of team %s in the fixtures", p.own.ID)
	raw, hours := p.metrics(lastDay).GetPoints(), map[time.Time]bool{}
	oldest := p.Clock()
	for _, point := range p.metrics(lastMonth).GetPoints() {
		hours[point.GetAt().AsTime()] = true
		if point.GetAt().AsTime().Before(oldest) {
			oldest = point.GetAt().AsTime()
		}
	}
	want := p.Clock().AddDate(0, 0, 1-p.own.MetricsDays)
	require(oldest.Before(want), "a point before "+want.Format(time.RFC3339), "%s as the oldest",
		oldest.Format(time.RFC3339))
	for _, point := range raw {
		at := point.GetAt()
		require(hours[at.AsTime().Truncate(time.Hour)] || at.AsTime().After(p.Clock().Add(-skew)),
			"a point of the hour of "+timeText(at)+" in the last 30 days", "none")
	}
	for _, point := range p.metrics(lastWeek).GetPoints() {
		at := point.GetAt()
		require(hours[at.AsTime()] || at.AsTime().After(p.Clock().Add(-time.Hour)),
			"the point of the last seven days at "+timeText(at)+" in the last 30 days too", "none")
	}
}

// commands returns the ids on a page of the command history, which has numbered pages, and the
// total.
func (p *probe) commands(page, size int) (ids []string, total int) {
	response := call[*fleetv1.ListServerCommandsResponse](p, listServerCommands, fields{"page": page, "page_size": size})
	return messageIDs(response), int(response.GetTotal())
}

// newestCommands returns the ids on the first page.
func (p *probe) newestCommands() []string {
	ids, _ := p.commands(1, contract.MaxPageSize)
	return ids
}

// pagesMatchOneLargePage compares small pages with a large one.
func pagesMatchOneLargePage(p *probe) {
	retryOnChange(p.newestCommands, func(all []string) {
		needs(len(all) >= 2, "a server with two commands")
		size := (len(all) + 2) / 3
		var walked []string
		for page := range 3 {
			ids, total := p.commands(page+1, size)
			require(total == len(all) || total > len(all) && len(all) == contract.MaxPageSize,
				fmt.Sprintf("a total of %d", len(all)), "a total of %d", total)
			walked = append(walked, ids...)
		}
		walked = walked[:min(len(walked), len(all))]
		must(sameList(fmt.Sprintf("on three pages of %d, the rows of one page of 100", size), all, walked))
	})
}

func pageBeyondIsEmpty(p *probe) {
	retryOnChange(p.newestCommands, func([]string) {
		_, want := p.commands(1, contract.MaxPageSize)
		needs(want > 0, "a server with commands")
		const far = 1_000_000
		beyond, total := p.commands(far, contract.MaxPageSize)
		require(len(beyond) == 0 && total == want,
			fmt.Sprintf("0 commands and a total of %d", want), "%d commands and a total of %d", len(beyond), total)
	})
}

// totalCountsAllRows reads all pages.
func totalCountsAllRows(p *probe) {
	retryOnChange(p.newestCommands, func([]string) {
		_, total := p.commands(1, contract.MaxPageSize)
		needs(total > contract.MaxPageSize, "a server with more than 100 commands")
		rows := 0
		for page := range total/contract.MaxPageSize + 1 {
			ids, _ := p.commands(page+1, contract.MaxPageSize)
			if len(ids) == 0 {
				break // a total of 2³¹ must not cost as many calls
			}
			rows += len(ids)
		}
		require(rows == total, fmt.Sprintf("%d rows on all pages, as the total", total), "%d", rows)
	})
}

// rowsAreOfOneServer compares the rows of the servers of the team.
func rowsAreOfOneServer(p *probe) {
	servers := map[string]string{} // by row
	withRows := 0
	for _, server := range messageIDs(p.of("fleet/ListServers").call(nil)) {
		ids := messageIDs(p.call(fields{"server_id": server}))
		withRows += min(1, len(ids))
		for _, id := range ids {
			require(servers[id] == "", "no row of server "+servers[id]+" for server "+server, "%s", id)
			servers[id] = server
		}
	}
	needs(withRows >= 2, "two servers of team %s with rows", p.own.ID)
}
