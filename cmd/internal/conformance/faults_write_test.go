package conformance_test

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	auditv1 "opsgate/proto/ops/audit/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

const resolved = incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED

// writeFaults are those of methods that write.
func writeFaults() []fault {
	return append(updateFaults(), []fault{
		{
			name: "an incident is answered as it is not", fails: []string{"incident/CreateIncident/creates"},
			unary: tamper(func(_ *intercepted, m *incidentv1.CreateIncidentResponse) { m.Incident.IsMaintenance = true }),
		},
		{
			name: "incidents are not resolved from the start", fails: []string{"incident/CreateIncident/resolved"},
			unary: tamper(func(_ *intercepted, m *incidentv1.CreateIncidentResponse) { m.Incident.ResolvedAt = nil }),
		},
		{
			name: "incidents are attached to no page", fails: []string{"incident/CreateIncident/attached"},
			unary: tamper(func(_ *intercepted, m *incidentv1.CreateIncidentResponse) { m.Incident.StatusPageId = nil }),
		},
		{
			name: "lengths are counted in bytes", fails: []string{"incident/CreateIncident/longest"},
			unary: func(c *intercepted) (proto.Message, error) {
				if len(text(c.request, "title")) > 255 {
					return nil, refuse("title")
				}
				return c.pass(c.request)
			},
		},
		{
			name: "writes are not audited", fails: []string{"*/audited"},
			unary: tamper(func(_ *intercepted, m *auditv1.ListAuditEntriesResponse) {
				for _, e := range m.Entries {
					if strings.HasPrefix(e.ActionType, "incident.") {
						e.ActorId = e.Id
					}
				}
			}),
		},
	}...)
}

func updateFaults() []fault {
	return []fault{
		{
			name: "the status does not follow the updates", fails: []string{"incident/AddIncidentUpdate/adds", "incident/AddIncidentUpdate/reopens"},
			unary: tamper(func(_ *intercepted, m *incidentv1.GetIncidentResponse) { m.Incident.Status = m.Updates[0].Status }),
		},
		{
			name: "resolving again moves the time", fails: []string{"incident/AddIncidentUpdate/resolves"},
			unary: tamper(func(_ *intercepted, m *incidentv1.GetIncidentResponse) {
				if m.Incident.Status == resolved {
					m.Incident.ResolvedAt = m.Updates[len(m.Updates)-1].CreatedAt
				}
			}),
		},
		{
			name: "what is open again stays resolved", fails: []string{"incident/AddIncidentUpdate/reopens"},
			unary: tamper(func(_ *intercepted, m *incidentv1.GetIncidentResponse) {
				if m.Incident.ResolvedAt == nil {
					m.Incident.ResolvedAt = resolvedOnce(m.Updates)
				}
			}),
		},
	}
}

// resolvedOnce is when an incident was first resolved; nil if it never was.
func resolvedOnce(updates []*incidentv1.IncidentUpdate) *timestamppb.Timestamp {
	for _, u := range updates {
		if u.Status == resolved {
			return u.CreatedAt
		}
	}
	return nil
}
