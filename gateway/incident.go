package gateway

import (
	"net/http"
	"time"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// Limits of fields (docs/integrate/contract.md, "Bodies").
const (
	maxTitle      = 255
	maxMessage    = 10_000
	maxComponents = 100
)

func (a *api) incidentRoutes() []Route {
	const get, post = http.MethodGet, http.MethodPost
	return []Route{
		{ID: "v1ListIncidents", Method: get, Path: "/v1/incidents",
			Scope: authn.IncidentsRead, Service: "incident", Fields: []string{"limit", "cursor"}, Handle: a.listIncidents},
		{ID: "v1CreateIncident", Method: post, Path: "/v1/incidents",
			Scope: authn.IncidentsWrite, Service: "incident", Handle: a.createIncident,
			Fields: []string{"title", "status", "impact", "message", "statusPageId", "componentIds"}},
		{ID: "v1GetIncident", Method: get, Path: "/v1/incidents/:id",
			Scope: authn.IncidentsRead, Service: "incident", Handle: a.getIncident},
		{ID: "v1AddIncidentUpdate", Method: post, Path: "/v1/incidents/:id/updates",
			Scope: authn.IncidentsWrite, Service: "incident", Handle: a.addIncidentUpdate,
			Fields: []string{"status", "message", "notifySubscribers"}},
	}
}

func (a *api) listIncidents(r *Request) (Reply, error) {
	q := r.Query()
	limit := q.Int("limit", 1, 100, 50)
	cursor, ignored := q.Cursor()
	if err := q.Err(); err != nil {
		return Reply{}, err
	}
	resp, err := a.incident.ListIncidents(r.Context(),
		&incidentv1.ListIncidentsRequest{TeamId: r.Team(), PageSize: limit, Cursor: cursor})
	if err != nil {
		return Reply{}, err
	}
	return Reply{
		View:       page(resp.Incidents, limit, encodeIncident, resp.NextCursor),
		NextCursor: resp.NextCursor, CursorIgnored: ignored || resp.CursorIgnored,
	}, nil
}

func (a *api) createIncident(r *Request) (Reply, error) {
	req, err := decodeCreateIncident(r)
	if err != nil {
		return Reply{}, err
	}
	resp, err := a.incident.CreateIncident(r.Context(), req)
	if err != nil {
		return Reply{}, err
	}
	return Reply{View: one(resp.Incident, encodeCreatedIncident), Replayed: resp.Replayed}, nil
}

func decodeCreateIncident(r *Request) (*incidentv1.CreateIncidentRequest, error) {
	b := r.Body()
	req := &incidentv1.CreateIncidentRequest{
		TeamId:         r.Team(),
		Actor:          r.actor(),
		IdempotencyKey: b.IdempotencyKey(),
		Title:          b.Text("title", maxTitle),
		Status:         requiredEnum(b, "status", incidentStatuses),
		Impact:         requiredEnum(b, "impact", incidentImpacts),
		Message:        b.Text("message", maxMessage),
		StatusPageId:   b.OptionalID("statusPageId"),
		ComponentIds:   b.IDs("componentIds", maxComponents),
	}
	return req, b.Finish()
}

func (a *api) getIncident(r *Request) (Reply, error) {
	resp, err := a.incident.GetIncident(r.Context(),
		&incidentv1.GetIncidentRequest{TeamId: r.Team(), IncidentId: r.pathID})
	if err != nil {
		return Reply{}, err
	}
	return show(one(resp.Incident, func(w *jsonw.Writer, i *incidentv1.Incident) {
		w.BeginObject()
		incidentFields(w, i)
		array(w, "updates", resp.Updates, encodeIncidentUpdate)
		w.EndObject()
	}))
}

func (a *api) addIncidentUpdate(r *Request) (Reply, error) {
	req, err := decodeIncidentUpdate(r)
	if err != nil {
		return Reply{}, err
	}
	resp, err := a.incident.AddIncidentUpdate(r.Context(), req)
	if err != nil {
		return Reply{}, err
	}
	return Reply{View: one(resp.Update, encodePostedUpdate), Replayed: resp.Replayed}, nil
}

func decodeIncidentUpdate(r *Request) (*incidentv1.AddIncidentUpdateRequest, error) {
	b := r.Body()
	req := &incidentv1.AddIncidentUpdateRequest{
		TeamId:            r.Team(),
		Actor:             r.actor(),
		IdempotencyKey:    b.IdempotencyKey(),
		IncidentId:        r.pathID,
		Status:            requiredEnum(b, "status", incidentStatuses),
		Message:           b.Text("message", maxMessage),
		NotifySubscribers: b.Bool("notifySubscribers", true),
	}
	return req, b.Finish()
}

// actor returns the caller of a write, for the audit log.
func (r *Request) actor() *incidentv1.Actor {
	return &incidentv1.Actor{
		TokenId:   r.principal.TokenID,
		IpAddress: r.ClientAddr().String(),
		RequestId: r.id,
	}
}

var incidentStatuses = []enumValue[incidentv1.IncidentStatus]{
	{"investigating", incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING},
	{"identified", incidentv1.IncidentStatus_INCIDENT_STATUS_IDENTIFIED},
	{"monitoring", incidentv1.IncidentStatus_INCIDENT_STATUS_MONITORING},
	{"resolved", incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED},
}

var incidentImpacts = []enumValue[incidentv1.IncidentImpact]{
	{"none", incidentv1.IncidentImpact_INCIDENT_IMPACT_NONE},
	{"minor", incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR},
	{"major", incidentv1.IncidentImpact_INCIDENT_IMPACT_MAJOR},
	{"critical", incidentv1.IncidentImpact_INCIDENT_IMPACT_CRITICAL},
}

func encodeIncident(w *jsonw.Writer, i *incidentv1.Incident) {
	w.BeginObject()
	incidentFields(w, i)
	w.EndObject()
}

func incidentFields(w *jsonw.Writer, i *incidentv1.Incident) {
	writeID(w, "id", i.Id)
	w.String("title", i.Title)
	writeEnum(w, "status", incidentStatuses, i.Status)
	writeEnum(w, "impact", incidentImpacts, i.Impact)
	writeIDOrNull(w, "statusPageId", i.StatusPageId)
	w.Bool("isMaintenance", i.IsMaintenance)
	writeTime(w, "startedAt", i.StartedAt)
	if i.ResolvedAt != nil && i.Status != incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED {
		w.Fail("resolvedAt", "is set in an open incident, to "+i.ResolvedAt.AsTime().Format(time.RFC3339))
	}
	writeTimeOrNull(w, "resolvedAt", i.ResolvedAt)
	writeTime(w, "createdAt", i.CreatedAt)
}

func encodeIncidentUpdate(w *jsonw.Writer, u *incidentv1.IncidentUpdate) {
	w.BeginObject()
	writeID(w, "id", u.Id)
	writeEnum(w, "status", incidentStatuses, u.Status)
	w.String("message", u.Message)
	writeTime(w, "createdAt", u.CreatedAt)
	w.EndObject()
}

func encodeCreatedIncident(w *jsonw.Writer, i *incidentv1.Incident) {
	w.BeginObject()
	writeID(w, "id", i.Id)
	w.String("title", i.Title)
	writeEnum(w, "status", incidentStatuses, i.Status)
	w.EndObject()
}

func encodePostedUpdate(w *jsonw.Writer, u *incidentv1.IncidentUpdate) {
	w.BeginObject()
	writeID(w, "id", u.Id)
	writeEnum(w, "status", incidentStatuses, u.Status)
	w.EndObject()
}
