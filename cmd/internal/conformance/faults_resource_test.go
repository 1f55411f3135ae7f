package conformance_test

import (
	"slices"

	"google.golang.org/protobuf/proto"

	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

const operational = incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL

// resourceFaults returns faults that only show with certain resources: a suspended page, a token of another plan, an open incident.
func resourceFaults() []fault {
	return slices.Concat(omissions(), tokenFaults(), []fault{
		{name: "components ignore their monitors", fails: []string{"incident/GetStatusPage/linked-component"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.GetStatusPageResponse) {
				for _, component := range m.Components {
					component.Status = operational
				}
			})},
		{name: "the overall status is constant", fails: []string{"incident/GetStatusPage/overall-status"},
			unary: func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(c.request)
				switch m := response.(type) {
				case *incidentv1.GetStatusPageResponse:
					if err == nil {
						m.StatusPage.OverallStatus = operational
					}
				case *incidentv1.ListStatusPagesResponse:
					for _, page := range m.StatusPages {
						page.OverallStatus = operational
					}
				}
				return response, err
			}},
		{name: "the list has another impact", fails: []string{"incident/GetIncident/same-as-list", "*/of-the-page"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.ListIncidentsResponse) {
				for _, incident := range m.Incidents {
					incident.Impact = incidentv1.IncidentImpact_INCIDENT_IMPACT_MAJOR
				}
			})},
		{name: "lists lack resolved_at", fails: []string{"incident/GetIncident/same-as-list"},
			unary: changeResponse(func(_ *intercepted, m interface {
				proto.Message
				GetIncidents() []*incidentv1.Incident
			}) {
				for _, incident := range m.GetIncidents() {
					incident.ResolvedAt = nil
				}
			})},
		{name: "the list lacks last_seen_at", fails: []string{"fleet/GetServer/same-as-list"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.ListServersResponse) {
				for _, server := range m.Servers {
					server.LastSeenAt = nil
				}
			})},
	})
}

func omissions() []fault {
	return []fault{
		{name: "a page has only open incidents", fails: []string{"*/of-the-page"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.ListStatusPageIncidentsResponse) {
				m.Incidents = slices.DeleteFunc(m.Incidents, func(i *incidentv1.Incident) bool { return i.Status == resolved })
			})},
		{name: "disabled monitors are left out", fails: []string{"monitoring/ListMonitors/complete"},
			unary: changeResponse(func(_ *intercepted, m *monitoringv1.ListMonitorsResponse) {
				m.Monitors = slices.DeleteFunc(m.Monitors, func(m *monitoringv1.Monitor) bool { return !m.Enabled })
			})},
		{name: "disabled monitors are enabled", fails: []string{"monitoring/ListMonitors/complete"},
			unary: changeMonitors(func(m *monitoringv1.Monitor) { m.Enabled = true })},
		{name: "suspended pages are left out", fails: []string{"incident/ListStatusPages/complete"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.ListStatusPagesResponse) {
				m.StatusPages = slices.DeleteFunc(m.StatusPages, func(p *incidentv1.StatusPage) bool { return p.Suspended })
			})},
	}
}

func tokenFaults() []fault {
	return []fault{
		{name: "tokens have no scopes", fails: []string{"identity/ResolveToken/scopes"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) { m.Scopes = nil })},
		{name: "every team has the plan ai", fails: []string{"identity/ResolveToken/plan"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) { m.Plan = identityv1.Plan_PLAN_AI })},
		{name: "a revocation is returned once", fails: []string{"identity/ResolveToken/revoked"},
			unary: ofTokens(func(c *intercepted, err error) (proto.Message, error) {
				if _, again := c.state.LoadOrStore(text(c.request, "token_sha256"), true); again && ofRevokedToken(c) {
					return nil, unknownToken()
				}
				return nil, err
			})},
		{name: "streams have no revocations", fails: []string{"identity/WatchRevocations/revocation"},
			stream: func(_ *watchRequest, _ int, m *watchResponse) bool {
				m.Revocation = nil
				return true
			}},
		{name: "resumed streams have no revocations", fails: []string{"identity/WatchRevocations/revocation"},
			stream: func(r *watchRequest, _ int, m *watchResponse) bool {
				if r.AfterPosition != "" {
					m.Revocation = nil
				}
				return true
			}},
	}
}
