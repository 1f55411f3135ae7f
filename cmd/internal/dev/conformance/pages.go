package conformance

import (
	"fmt"
	"slices"

	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// componentFollowsMonitor compares the linked component with its monitor.
func componentFollowsMonitor(p *probe) {
	monitor, component := p.own.LinkedMonitor, p.own.LinkedComponent
	needs(component != "", "linked_component and linked_monitor of team %s in the fixtures", p.own.ID)
	var status monitoringv1.MonitorStatus
	retryOnChange(func() []string {
		status = find(p.monitors(), monitor).GetStatus()
		return []string{status.String()}
	}, func([]string) {
		want := map[monitoringv1.MonitorStatus]incidentv1.PublicStatus{
			monitoringv1.MonitorStatus_MONITOR_STATUS_UP:       incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL,
			monitoringv1.MonitorStatus_MONITOR_STATUS_DEGRADED: incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED,
			monitoringv1.MonitorStatus_MONITOR_STATUS_DOWN:     incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE,
		}[status]
		var components []*incidentv1.StatusPageComponent
		for _, page := range p.ids(maxChoices) {
			components = append(components, p.statusPage(page).GetComponents()...)
		}
		got := find(components, component).GetStatus()
		require(got == want, fmt.Sprintf("%v for the component %s, whose monitor is %v", want, component, status), "%v", got)
	})
	needs(status != monitoringv1.MonitorStatus_MONITOR_STATUS_UP, "a linked_monitor of team %s that is not up", p.own.ID)
}

// statusPage returns a page with its components.
func (p *probe) statusPage(id string) *incidentv1.GetStatusPageResponse {
	return call[*incidentv1.GetStatusPageResponse](p, getStatusPage, fields{"status_page_id": id})
}

// overallStatusFollowsIncidents opens an incident in which nothing works on a page without an
// outage, and resolves it.
func overallStatusFollowsIncidents(p *probe) {
	pages := call[*incidentv1.ListStatusPagesResponse](p, listStatusPages, nil).GetStatusPages()
	at := slices.IndexFunc(pages, func(page *incidentv1.StatusPage) bool {
		return !page.GetSuspended() && page.GetOverallStatus() != incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE
	})
	needs(at >= 0, "a page of team %s without an outage", p.own.ID)
	page := pages[at].GetId()
	overall := func() incidentv1.PublicStatus { return p.statusPage(page).GetStatusPage().GetOverallStatus() }
	retryOnChange(func() []string { return texts(p.statusPage(page).GetComponents()) }, func([]string) {
		before := overall()
		incident := p.create(fields{
			"status_page_id": page, "status": investigating, "impact": incidentv1.IncidentImpact_INCIDENT_IMPACT_CRITICAL,
		})
		during := overall()
		p.update(incident.GetId(), nil)
		require(during != before, fmt.Sprintf("not %v for the page %s with an open critical incident", before, page), "%v",
			during)
		after := overall()
		require(after == before, fmt.Sprintf("%v for the page %s, after the incident was resolved", before, page), "%v",
			after)
	})
}
