package gateway

import (
	"net/http"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

func (a *api) statusPageRoutes() []Route {
	const get = http.MethodGet
	return []Route{
		{ID: "v1ListStatusPages", Method: get, Path: "/v1/status-pages",
			Scope: authn.StatusPagesRead, Service: "incident", Handle: a.listStatusPages},
		{ID: "v1GetStatusPage", Method: get, Path: "/v1/status-pages/:id",
			Scope: authn.StatusPagesRead, Service: "incident", Handle: a.getStatusPage},
		{ID: "v1ListStatusPageIncidents", Method: get, Path: "/v1/status-pages/:id/incidents",
			Scope: authn.StatusPagesRead, Service: "incident", Handle: a.listStatusPageIncidents},
	}
}

func (a *api) listStatusPages(r *Request) (Reply, error) {
	resp, err := a.incident.ListStatusPages(r.Context(), &incidentv1.ListStatusPagesRequest{TeamId: r.Team()})
	if err != nil {
		return Reply{}, err
	}
	return show(list(resp.StatusPages, encodeStatusPage))
}

func (a *api) getStatusPage(r *Request) (Reply, error) {
	resp, err := a.incident.GetStatusPage(r.Context(),
		&incidentv1.GetStatusPageRequest{TeamId: r.Team(), StatusPageId: r.pathID})
	if err != nil {
		return Reply{}, err
	}
	return show(one(resp.StatusPage, func(w *jsonw.Writer, p *incidentv1.StatusPage) {
		w.BeginObject()
		statusPageFields(w, p)
		array(w, "components", resp.Components, encodeComponent)
		w.EndObject()
	}))
}

func (a *api) listStatusPageIncidents(r *Request) (Reply, error) {
	req := &incidentv1.ListStatusPageIncidentsRequest{TeamId: r.Team(), StatusPageId: r.pathID}
	resp, err := a.incident.ListStatusPageIncidents(r.Context(), req)
	if err != nil {
		return Reply{}, err
	}
	return show(list(resp.Incidents, encodeIncident))
}

var publicStatuses = []enumValue[incidentv1.PublicStatus]{
	{"operational", incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL},
	{"degraded", incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED},
	{"outage", incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE},
	{"maintenance", incidentv1.PublicStatus_PUBLIC_STATUS_MAINTENANCE},
}

func encodeStatusPage(w *jsonw.Writer, p *incidentv1.StatusPage) {
	w.BeginObject()
	statusPageFields(w, p)
	w.EndObject()
}

func statusPageFields(w *jsonw.Writer, p *incidentv1.StatusPage) {
	writeID(w, "id", p.Id)
	w.String("name", p.Name)
	w.String("uniqueHostname", p.UniqueHostname)
	w.String("slug", p.Slug)
	w.String("visibility", p.Visibility)
	w.String("primaryColor", p.PrimaryColor)
	w.StringOrNull("description", p.Description)
	w.Bool("suspended", p.Suspended)
	writeEnum(w, "overallStatus", publicStatuses, p.OverallStatus)
	writeTime(w, "createdAt", p.CreatedAt)
}

func encodeComponent(w *jsonw.Writer, c *incidentv1.StatusPageComponent) {
	w.BeginObject()
	writeID(w, "id", c.Id)
	w.String("name", c.Name)
	w.StringOrNull("groupName", c.GroupName)
	w.Int("position", int64(c.Position))
	writeEnum(w, "status", publicStatuses, c.Status)
	w.EndObject()
}
