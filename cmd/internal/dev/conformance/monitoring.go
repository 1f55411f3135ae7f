package conformance

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

const (
	listMonitors      = "monitoring/ListMonitors"
	listMonitorChecks = "monitoring/ListMonitorChecks"
)

func monitoringRules() []rule {
	return []rule{
		{name: "since-inclusive", on: named(listMonitorChecks), check: sinceIsInclusive,
			sentence: "`since` is the earliest time of a check, inclusive."},
		{name: "since-future", on: named(listMonitorChecks), check: futureIsEmpty,
			sentence: "For a time in the future the list is empty."},
		{name: "since-old", on: named(listMonitorChecks), check: sinceIsNotCapped,
			sentence: "ListMonitorChecks returns the results since any time."},
		{name: "last-check", on: named(listMonitors), check: monitorFollowsChecks,
			sentence: "`status` and `last_check_at` are those of the last check; `uptime_percent` is a percentage of the " +
				"checks of 30 days."},
	}
}

func (p *probe) monitors() []*monitoringv1.Monitor {
	return call[*monitoringv1.ListMonitorsResponse](p, listMonitors, nil).GetMonitors()
}

// checks returns the checks of the own team's monitor with the most.
func (p *probe) checks(changes fields) []*monitoringv1.MonitorCheck {
	return call[*monitoringv1.ListMonitorChecksResponse](p, listMonitorChecks, changes).GetChecks()
}

// checkTimes returns their times.
func (p *probe) checkTimes(changes fields) (times []*timestamppb.Timestamp) {
	for _, check := range p.checks(changes) {
		times = append(times, check.GetCheckedAt())
	}
	return times
}

// lastMonthOfChecks returns the value of `since` with which the list has the checks of 30 days.
func (p *probe) lastMonthOfChecks() fields {
	return fields{"since": timestamppb.New(p.Clock().AddDate(0, 0, -30))}
}

func sinceIsNotCapped(p *probe) {
	times := p.checkTimes(p.lastMonthOfChecks())
	needs(len(times) > 0 && !times[len(times)-1].AsTime().After(p.Clock().Add(-24*time.Hour-skew)),
		"a check of the monitor before the last 24 hours")
}

// monitorFollowsChecks compares the monitor with the most checks with them.
func monitorFollowsChecks(p *probe) {
	id := p.of(listMonitorChecks).resource()
	var checks []*monitoringv1.MonitorCheck
	retryOnChange(func() []string {
		checks = p.checks(p.lastMonthOfChecks().with(fields{"monitor_id": id}))
		return []string{strconv.Itoa(len(checks))}
	}, func([]string) {
		needs(len(checks) > 0, "a monitor with checks")
		newest, notDown := checks[0], 0
		for _, check := range checks {
			if check.GetCheckedAt().AsTime().After(newest.GetCheckedAt().AsTime()) {
				newest = check
			}
			if check.GetStatus() != monitoringv1.MonitorStatus_MONITOR_STATUS_DOWN {
				notDown++
			}
		}
		got := find(p.monitors(), id)
		require(proto.Equal(got.GetLastCheckAt(), newest.GetCheckedAt()) && got.GetStatus() == newest.GetStatus(),
			fmt.Sprintf("%v at %s, the newest check of the monitor %s", newest.GetStatus(), timeText(newest.GetCheckedAt()), id),
			"%v at %s", got.GetStatus(), timeText(got.GetLastCheckAt()))
		const rounding = 0.5 // of services that count by the day
		uptime := 100 * float64(notDown) / float64(len(checks))
		require(got.UptimePercent != nil && math.Abs(got.GetUptimePercent()-uptime) <= rounding,
			fmt.Sprintf("uptime_percent %.2f, of %d checks", uptime, len(checks)), "%v", got.GetUptimePercent())
	})
}

// sinceIsInclusive uses the exact time of a check in the middle of the list.
func sinceIsInclusive(p *probe) {
	all := p.checkTimes(nil)
	needs(len(all) >= 3, "a monitor with three checks in the last day")
	since := all[len(all)/2]
	some := append([]*timestamppb.Timestamp{nil}, p.checkTimes(fields{"since": timestamppb.New(since.AsTime())})...)
	oldest := some[len(some)-1]
	require(oldest.AsTime().Equal(since.AsTime()), timeText(since)+" as the oldest check, for since with its time", "%s",
		timeText(oldest))
}

func futureIsEmpty(p *probe) {
	needs(len(p.checkTimes(nil)) > 0, "a monitor with checks in the last day")
	times := p.checkTimes(fields{"since": timestamppb.New(p.Clock().Add(24 * time.Hour))})
	require(len(times) == 0, "0 checks since tomorrow", "%d", len(times))
}
