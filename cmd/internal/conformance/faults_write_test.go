package conformance_test

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	auditv1 "opsgate/proto/ops/audit/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

const resolved = incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED

// writeFaults returns faults of methods that write.
func writeFaults() []fault {
	return append(updateFaults(), []fault{
		{name: "the response differs from the incident", fails: []string{"incident/CreateIncident/creates"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.CreateIncidentResponse) { m.Incident.IsMaintenance = true })},
		{name: "incidents are created without resolved_at", fails: []string{"incident/CreateIncident/resolved"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.CreateIncidentResponse) { m.Incident.ResolvedAt = nil })},
		{name: "incidents are not attached to the page", fails: []string{"incident/CreateIncident/attached"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.CreateIncidentResponse) { m.Incident.StatusPageId = nil })},
		{name: "lengths are counted in bytes", fails: []string{"incident/CreateIncident/longest"},
			unary: func(c *intercepted) (proto.Message, error) {
				if len(text(c.request, "title")) > 255 {
					return nil, invalidArgument("title")
				}
				return c.pass(c.request)
			}},
		{name: "writes are not audited", fails: []string{"*/audited"},
			unary: changeResponse(func(_ *intercepted, m *auditv1.ListAuditEntriesResponse) {
				for _, e := range m.Entries {
					if strings.HasPrefix(e.ActionType, "incident.") {
						e.ActorId = e.Id
					}
				}
			})},
	}...)
}

func updateFaults() []fault {
	return []fault{
		{name: "updates do not change the status", fails: []string{"incident/AddIncidentUpdate/adds", "incident/AddIncidentUpdate/reopens", "incident/GetIncident/same-as-list"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.GetIncidentResponse) { m.Incident.Status = m.Updates[0].Status })},
		{name: "a second resolution changes resolved_at", fails: []string{"incident/AddIncidentUpdate/resolves", "incident/GetIncident/same-as-list"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.GetIncidentResponse) {
				if m.Incident.Status == resolved {
					m.Incident.ResolvedAt = m.Updates[len(m.Updates)-1].CreatedAt
				}
			})},
		{name: "reopened incidents keep resolved_at", fails: []string{"incident/AddIncidentUpdate/reopens"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.GetIncidentResponse) {
				if m.Incident.ResolvedAt == nil {
					m.Incident.ResolvedAt = resolvedOnce(m.Updates)
				}
			})},
	}
}

// resolvedOnce returns the time of the first resolution, or nil.
func resolvedOnce(updates []*incidentv1.IncidentUpdate) *timestamppb.Timestamp {
	for _, u := range updates {
		if u.Status == resolved {
			return u.CreatedAt
		}
	}
	return nil
}
