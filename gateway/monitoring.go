package gateway

import (
	"math"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// defaultChecksPeriod is how far back checks are listed if the request has no since
// (docs/integrate/contract.md, "Lists and pages").
const defaultChecksPeriod = 24 * time.Hour

func (a *api) monitoringRoutes() []Route {
	const get = http.MethodGet
	return []Route{
		{ID: "v1ListMonitors", Method: get, Path: "/v1/monitors",
			Scope: authn.MonitorsRead, Service: "monitoring", Handle: a.listMonitors},
		{ID: "v1ListMonitorChecks", Method: get, Path: "/v1/monitors/:id/checks",
			Scope: authn.MonitorsRead, Service: "monitoring", Fields: []string{"since"}, Handle: a.listMonitorChecks},
	}
}

func (a *api) listMonitors(r *Request) (Reply, error) {
	resp, err := a.monitoring.ListMonitors(r.Context(), &monitoringv1.ListMonitorsRequest{TeamId: r.Team()})
	if err != nil {
		return Reply{}, err
	}
	return show(list(resp.Monitors, encodeMonitor))
}

func (a *api) listMonitorChecks(r *Request) (Reply, error) {
	q := r.Query()
	since := q.Time("since", r.gateway.options.Clock().Add(-defaultChecksPeriod))
	if err := q.Err(); err != nil {
		return Reply{}, err
	}
	resp, err := a.monitoring.ListMonitorChecks(r.Context(), &monitoringv1.ListMonitorChecksRequest{
		TeamId: r.Team(), MonitorId: r.pathID, Since: timestampOf(since),
	})
	if err != nil {
		return Reply{}, err
	}
	return show(list(resp.Checks, encodeMonitorCheck))
}

// timestampOf clamps a time to the years of a Timestamp. An RFC 3339 time can be outside of these
// years: in the year 0, or because of its offset.
func timestampOf(t time.Time) *timestamppb.Timestamp {
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	switch {
	case t.Before(first):
		t = first
	case t.After(last):
		t = last
	}
	return timestamppb.New(t)
}

var monitorStatuses = []enumValue[monitoringv1.MonitorStatus]{
	{"up", monitoringv1.MonitorStatus_MONITOR_STATUS_UP},
	{"degraded", monitoringv1.MonitorStatus_MONITOR_STATUS_DEGRADED},
	{"down", monitoringv1.MonitorStatus_MONITOR_STATUS_DOWN},
}

func encodeMonitor(w *jsonw.Writer, m *monitoringv1.Monitor) {
	w.BeginObject()
	writeID(w, "id", m.Id)
	w.String("name", m.Name)
	w.String("type", m.Type)
	w.String("target", m.Target)
	writeEnum(w, "status", monitorStatuses, m.Status)
	w.Bool("enabled", m.Enabled)
	writeCount(w, "intervalSeconds", int64(m.IntervalSeconds))
	if m.UptimePercent == nil {
		w.Null("uptimePercent")
	} else {
		w.Float("uptimePercent", math.Round(*m.UptimePercent*1000)/1000) // docs/integrate/contract.md, "Values"
	}
	writeTimeOrNull(w, "lastCheckAt", m.LastCheckAt)
	writeTimeOrNull(w, "lastStatusChangeAt", m.LastStatusChangeAt)
	w.EndObject()
}

func encodeMonitorCheck(w *jsonw.Writer, c *monitoringv1.MonitorCheck) {
	w.BeginObject()
	writeEnum(w, "status", monitorStatuses, c.Status)
	writeCount(w, "latencyMs", int64(c.LatencyMs))
	writeTime(w, "checkedAt", c.CheckedAt)
	w.EndObject()
}
