package service

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/store/query"
	incidentv1 "opsgate/proto/ops/incident/v1"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// Check stores a check, and what follows from it by the rules of docs/platform/monitors.md: the
// monitor's status, the incident of its outage with notifications, and audit entries. A check that
// is not later than the monitor's last one, or older than maxCheckAge, only joins the history, even
// of a disabled monitor. A second check of one time changes nothing.
func (r *Recorder) Check(ctx context.Context, c *ingestv1.MonitorCheck) error {
	at, err := r.time("checked_at", c.GetCheckedAt())
	if err != nil {
		return err
	}
	switch s := c.GetStatus(); {
	case s != statusUp && s != statusDegraded && s != statusDown:
		return invalid("unknown status of a check %q: must be %s, %s or %s", s, statusUp, statusDegraded, statusDown)
	case c.GetLatencyMs() < 0:
		return invalid("the latency of a check is negative: %d ms", c.GetLatencyMs())
	}
	monitor, err := once(r.monitors, "monitor", c.GetMonitorId(), func(id string) (query.Monitor, error) {
		return r.q.GetMonitorAnyTeam(ctx, id)
	})
	if err != nil {
		return err
	}
	late := at < storedTime(r.clock().Add(-maxCheckAge)) || isLate(at, monitor.LastCheckAt, r.clock())
	if !monitor.Enabled && !late {
		return status.Error(codes.FailedPrecondition, "the monitor is disabled")
	}
	inserted, err := r.q.InsertNewMonitorCheckAnyTeam(ctx, query.InsertNewMonitorCheckAnyTeamParams{
		MonitorID: monitor.ID, CheckedAt: at, Status: c.GetStatus(), LatencyMs: int64(c.GetLatencyMs()),
	})
	if err != nil {
		return fmt.Errorf("write the check: %w", err)
	}
	if inserted == 0 || late {
		return nil
	}
	now, err := audit.TimeOfWrite(ctx, r.q, r.clock, monitor.TeamID)
	if err != nil {
		return err
	}
	w := checkWrite{q: r.q, monitor: monitor, at: at, now: now}
	err = w.apply(ctx, c.GetStatus())
	r.posted = r.posted || w.posted
	return err
}

// isLate reports whether a check or a run is not newer than the last one. A last one from the
// future does not count: the clock was set back since.
func isLate(at int64, last *int64, now time.Time) bool {
	return last != nil && at <= *last && *last <= storedTime(now.Add(MaxClockSkew))
}

// A checkWrite is the transaction of a check that is newer than the others of its monitor.
type checkWrite struct {
	q       *query.Queries
	monitor *query.Monitor // updated with the row
	at      int64          // time of the check
	now     int64          // time of the next row that the write orders by time
	posted  bool           // whether the write posted an update
}

// apply updates the monitor, with what follows from it.
func (w *checkWrite) apply(ctx context.Context, result string) error {
	m := w.monitor
	before := monitorState{status: m.Status, failed: m.FailedChecks, good: m.GoodChecks}
	after := before.after(result)
	m.Status, m.FailedChecks, m.GoodChecks, m.LastCheckAt = after.status, after.failed, after.good, &w.at
	if m.LastStatusChangeAt != nil && *m.LastStatusChangeAt > w.at { // the clock was set back
		m.LastStatusChangeAt = &w.at
	}
	if after.status != before.status {
		m.LastStatusChangeAt = &w.at
		if err := w.changeStatus(ctx); err != nil {
			return err
		}
	}
	if err := w.endOutage(ctx); err != nil {
		return err
	}
	err := w.q.SetMonitorState(ctx, query.SetMonitorStateParams{
		TeamID: m.TeamID, ID: m.ID, Status: m.Status, LastCheckAt: m.LastCheckAt, LastStatusChangeAt: m.LastStatusChangeAt,
		FailedChecks: m.FailedChecks, GoodChecks: m.GoodChecks, IncidentID: m.IncidentID,
	})
	if err != nil {
		return fmt.Errorf("write the monitor: %w", err)
	}
	return nil
}

// changeStatus records the transition to the monitor's status, with the components that follow it,
// and opens an incident if necessary.
func (w *checkWrite) changeStatus(ctx context.Context) error {
	if err := w.record(ctx, transitionAction(w.monitor.Status), w.monitor.ID); err != nil {
		return err
	}
	components, err := w.q.ListMonitorComponents(ctx,
		query.ListMonitorComponentsParams{TeamID: w.monitor.TeamID, MonitorID: &w.monitor.ID})
	if err != nil {
		return fmt.Errorf("list the monitor's components: %w", err)
	}
	for _, component := range components {
		if err := w.record(ctx, componentStatusChanged, component.ID); err != nil {
			return err
		}
	}
	if w.monitor.Status != statusDown || !w.monitor.OpensIncidents {
		return nil
	}
	if incident, err := w.incident(ctx); err != nil || incident != nil && incident.Status != resolved {
		return err
	}
	return w.openIncident(ctx, components)
}

// record writes an audit entry of the service.
func (w *checkWrite) record(ctx context.Context, kind, resource string) error {
	err := audit.Service().Action(w.monitor.TeamID, kind, resource, w.now).Record(ctx, w.q)
	w.now++
	return err
}

// incident returns the incident of the outage in progress, or nil.
func (w *checkWrite) incident(ctx context.Context) (*query.Incident, error) {
	if w.monitor.IncidentID == nil {
		return nil, nil
	}
	row, err := w.q.GetIncident(ctx, query.GetIncidentParams{TeamID: w.monitor.TeamID, ID: *w.monitor.IncidentID})
	if err != nil {
		return nil, fmt.Errorf("get the incident of the outage: %w", err)
	}
	return &row, nil
}

// openIncident opens an incident on the page of the first component. Without components it is on no
// page.
func (w *checkWrite) openIncident(ctx context.Context, components []query.Component) error {
	row := query.Incident{
		ID: newID(), TeamID: w.monitor.TeamID, Title: incidentTitle(w.monitor.Name), Status: "investigating", Impact: "major",
		StartedAt: w.at, CreatedAt: w.now, AffectsPage: true,
	}
	var affected []string
	for _, component := range components {
		if row.StatusPageID == nil {
			row.StatusPageID = &component.StatusPageID
		}
		if component.StatusPageID == *row.StatusPageID {
			affected = append(affected, component.ID)
		}
	}
	w.monitor.IncidentID = &row.ID
	update := w.update(row, incidentCreated, row.Status,
		"Our automatic checks of "+w.monitor.Name+" fail. We are investigating.")
	return update.open(ctx, w.q, affected)
}

// incidentTitle returns the title of the incident of a monitor.
func incidentTitle(monitor string) string {
	const suffix = " is down"
	if name := []rune(monitor); len(name)+len(suffix) > maxTitle {
		monitor = string(name[:maxTitle-len(suffix)])
	}
	return monitor + suffix
}

// update returns an update by the service, to be written now.
func (w *checkWrite) update(incident query.Incident, event, status, message string) postedUpdate {
	at := w.now
	w.now++
	w.posted = true
	return postedUpdate{
		incident: incident, event: event, status: status, message: message, notify: true, at: at,
		actor: &incidentv1.Actor{TokenId: audit.ServiceActor, IpAddress: audit.ServiceAddress},
	}
}

// endOutage ends the outage in progress if the monitor has been up for long enough. It resolves the
// incident of the outage, unless that is resolved already.
func (w *checkWrite) endOutage(ctx context.Context) error {
	if w.monitor.IncidentID == nil || w.monitor.Status != statusUp {
		return nil
	}
	upFor := time.Duration(w.at - *w.monitor.LastStatusChangeAt)
	if upFor < recoveryTime {
		return nil
	}
	outages, err := w.q.CountActions(ctx, query.CountActionsParams{
		TeamID: w.monitor.TeamID, ActionType: monitorDown, ResourceID: w.monitor.ID, After: w.now - flapWindow.Nanoseconds(),
	})
	if err != nil {
		return fmt.Errorf("count the times that the monitor went down: %w", err)
	}
	if upFor < time.Duration(outages)*recoveryTime {
		return nil
	}
	incident, err := w.incident(ctx)
	if err != nil {
		return err
	}
	w.monitor.IncidentID = nil
	if incident.Status == resolved {
		return nil
	}
	message := fmt.Sprintf("Our automatic checks of %s have succeeded for %d minutes. This incident is resolved.",
		w.monitor.Name, int(upFor.Minutes()))
	update := w.update(*incident, updatePosted, resolved, message)
	if err := update.setStatus(ctx, w.q); err != nil {
		return err
	}
	_, err = update.write(ctx, w.q)
	return err
}
