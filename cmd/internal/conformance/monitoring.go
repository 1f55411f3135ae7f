package conformance

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

const listMonitorChecks = "monitoring/ListMonitorChecks"

func monitoringRules() []rule {
	return []rule{
		{name: "since-inclusive", on: named(listMonitorChecks), check: sinceIsInclusive,
			sentence: "`since` is the earliest time of a check, inclusive."},
		{name: "since-future", on: named(listMonitorChecks), check: futureIsEmpty,
			sentence: "For a time in the future the list is empty."},
	}
}

// checkTimes returns the times of the checks of the own team's monitor.
func (p *probe) checkTimes(changes fields) (times []*timestamppb.Timestamp) {
	for _, check := range call[*monitoringv1.ListMonitorChecksResponse](p, listMonitorChecks, changes).GetChecks() {
		times = append(times, check.GetCheckedAt())
	}
	return times
}

// sinceIsInclusive uses the exact time of a check in the middle of the list.
func sinceIsInclusive(p *probe) {
	all := p.checkTimes(nil)
	if len(all) < 3 {
		must(skip("the monitor was checked fewer than three times in the last day"))
	}
	since := all[len(all)/2]
	some := append([]*timestamppb.Timestamp{nil}, p.checkTimes(fields{"since": timestamppb.New(since.AsTime())})...)
	oldest := some[len(some)-1]
	require(oldest.AsTime().Equal(since.AsTime()), timeText(since)+" as the oldest check, for since with its time", "%s", timeText(oldest))
}

func futureIsEmpty(p *probe) {
	times := p.checkTimes(fields{"since": timestamppb.New(p.Clock().Add(24 * time.Hour))})
	require(len(times) == 0, "0 checks since tomorrow", "%d", len(times))
}
