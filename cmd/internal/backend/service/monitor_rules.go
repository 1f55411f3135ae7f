package service

import "time"

// Action types in the audit log.
const (
	monitorDown            = "monitor.down"
	monitorDegraded        = "monitor.degraded"
	monitorRecovered       = "monitor.recovered"
	componentStatusChanged = "component.status_changed"
)

// Statuses of a monitor and of a check.
const (
	statusUp       = "up"
	statusDegraded = "degraded"
	statusDown     = "down"
)

// Consecutive checks that change the status of a monitor.
const (
	failuresUntilDown    = 3
	successesUntilUp     = 2
	answersUntilDegraded = 2 // of a monitor that is down: checks that did not fail
)

// The incident of an outage is resolved when its monitor has been up for recoveryTime, multiplied
// by the number of times that it went down within flapWindow. So a flapping monitor has one
// incident, and only resolutions are delayed.
const (
	recoveryTime = 5 * time.Minute
	flapWindow   = time.Hour
)

// MaxClockSkew is how far the clock of a probe may be ahead. A check further in the future is
// refused: until then, every other check would count as late.
const MaxClockSkew = time.Minute

// maxCheckAge is the age of the oldest check to which the rules apply. An older one describes the
// past, also as the first of its monitor.
const maxCheckAge = 15 * time.Minute

// A monitorState is the status of a monitor, and how many of its latest checks in a row failed or
// were good.
type monitorState struct {
	status       string
	failed, good int64
}

// after returns the state after one more check.
func (m monitorState) after(result string) monitorState {
	answers := 0 // of the last two checks
	if m.failed == 0 {
		answers++
	}
	if result == statusDown {
		m.failed, m.good = m.failed+1, 0
	} else {
		m.failed = 0
		answers++
	}
	switch result {
	case statusUp:
		m.good++
	case statusDegraded:
		m.good = 0
	}
	switch {
	case m.failed >= failuresUntilDown:
		m.status = statusDown
	case m.good >= successesUntilUp:
		m.status = statusUp
	case m.status == statusUp && result != statusUp:
		m.status = statusDegraded
	case m.status == statusDown && answers >= answersUntilDegraded:
		m.status = statusDegraded
	}
	return m
}

// transitionAction returns the action type of a monitor's transition to a status.
func transitionAction(status string) string {
	switch status {
	case statusDown:
		return monitorDown
	case statusDegraded:
		return monitorDegraded
	default:
		return monitorRecovered
	}
}
