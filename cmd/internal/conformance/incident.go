package conformance

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
	auditv1 "opsgate/proto/ops/audit/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

const (
	listIncidents           = "incident/ListIncidents"
	getIncident             = "incident/GetIncident"
	createIncident          = "incident/CreateIncident"
	addIncidentUpdate       = "incident/AddIncidentUpdate"
	listStatusPages         = "incident/ListStatusPages"
	getStatusPage           = "incident/GetStatusPage"
	listStatusPageIncidents = "incident/ListStatusPageIncidents"
)

const (
	investigating = incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING
	monitoring    = incidentv1.IncidentStatus_INCIDENT_STATUS_MONITORING
	resolved      = incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED
)

// validFields returns values with which requests that have these fields are valid. Incidents are resolved from the start, so that no open
// incident stays behind.
func (p *probe) validFields() fields {
	return fields{
		"actor": p.actor, "title": "Conformance check " + uuid.NewString(), "status": resolved,
		"message": "Created by a conformance check. There is no real incident.", "token_sha256": make([]byte, sha256.Size),
	}
}

// create creates an incident.
func (p *probe) create(changes fields) *incidentv1.Incident {
	return call[*incidentv1.CreateIncidentResponse](p, createIncident, changes).GetIncident()
}

// update adds an update to an incident. By default it resolves the incident.
func (p *probe) update(incident string, changes fields) *incidentv1.IncidentUpdate {
	return call[*incidentv1.AddIncidentUpdateResponse](p, addIncidentUpdate, fields{"incident_id": incident}.with(changes)).GetUpdate()
}

// timeline returns an incident with its updates.
func (p *probe) timeline(incident string) *incidentv1.GetIncidentResponse {
	return call[*incidentv1.GetIncidentResponse](p, getIncident, fields{"incident_id": incident})
}

func incidentRules() []rule {
	create, update := named(createIncident), named(addIncidentUpdate)
	return []rule{
		{name: "of-the-page", on: named(listStatusPageIncidents), check: incidentsAreOfThePage,
			sentence: "ListStatusPageIncidents returns the incidents that are attached to the page, at most 100."},
		{name: "creates", on: create, check: incidentIsCreated,
			sentence: "CreateIncident creates an incident and its first update. `started_at` is the time of the call."},
		{name: "resolved", on: create, check: createdAsResolved,
			sentence: "With the status resolved, `resolved_at` is the time of the call."},
		{name: "attached", on: create, needs: []Kind{StatusPage, Component}, check: incidentIsAttached,
			sentence: "The incident is attached to the given status page."},
		{name: "longest", on: create, check: longestIsAccepted,
			sentence: "A title has up to 255 characters, and a message up to 10,000."},
		{name: "component-elsewhere", on: create, needs: []Kind{StatusPage}, check: componentIsOnThePage,
			sentence: "INVALID_ARGUMENT naming `component_ids` if one is not on the given page."},
		{name: "adds", on: update, check: updateIsAdded,
			sentence: "AddIncidentUpdate adds an update to the timeline and gives the incident the update's status."},
		{name: "resolves", on: update, check: secondResolutionKeepsTime,
			sentence: "The status resolved sets `resolved_at`, unless it is already set."},
		{name: "reopens", on: update, check: anotherStatusReopens,
			sentence: "Any status other than resolved clears `resolved_at`."},
		{name: "audited", on: contract.Method.Writes, check: writeIsAudited,
			sentence: "A write has an audit entry, which names the actor."},
	}
}

func incidentsAreOfThePage(p *probe) {
	incidents := call[*incidentv1.ListStatusPageIncidentsResponse](p, listStatusPageIncidents, nil).GetIncidents()
	require(len(incidents) <= contract.MaxPageSize, "at most 100 incidents", "%d incidents", len(incidents))
	page := p.own.Resources[StatusPage]
	for _, incident := range incidents {
		require(incident.GetStatusPageId() == page, "the status_page_id "+page,
			"%q in incident %s", incident.GetStatusPageId(), incident.GetId())
	}
}

func incidentIsCreated(p *probe) {
	r := as[*incidentv1.CreateIncidentRequest](p.request(fields{"status": investigating}))
	response, err := p.send(p.ctx, r)
	must(err)
	created := as[*incidentv1.CreateIncidentResponse](response).GetIncident()
	must(sameMessage("CreateIncident returns", &incidentv1.Incident{
		Id: created.GetId(), Title: r.GetTitle(), Status: r.GetStatus(), Impact: r.GetImpact(),
		StartedAt: created.GetCreatedAt(), CreatedAt: created.GetCreatedAt(),
	}, created))
	state := p.timeline(created.GetId())
	must(sameMessage("GetIncident returns", created, state.GetIncident()))
	updates := state.GetUpdates()
	require(len(updates) == 1, "1 update in the timeline", "%d", len(updates))
	expectUpdate("the timeline is", r.GetStatus(), r.GetMessage(), updates[0])
	n := strings.Count(strings.Join(messageIDs(p.of(listIncidents).call(nil)), " "), created.GetId())
	require(n == 1, "the incident 1 time on the first page of ListIncidents", "%d times", n)
	p.update(created.GetId(), nil)
}

func createdAsResolved(p *probe) {
	created := p.create(nil)
	require(created.GetResolvedAt() != nil && created.GetResolvedAt().AsTime().Equal(created.GetCreatedAt().AsTime()),
		"resolved_at "+timeText(created.GetCreatedAt())+", the time of creation", "resolved_at %s", timeText(created.GetResolvedAt()))
}

func incidentIsAttached(p *probe) {
	page := p.own.Resources[StatusPage]
	expectID(page, p.create(fields{"status_page_id": page, "component_ids": p.own.Resources[Component]}).GetStatusPageId())
}

// longestIsAccepted uses characters of more than one byte.
func longestIsAccepted(p *probe) {
	_, err := p.attempt(fields{"title": strings.Repeat("ü", maxTitle), "message": strings.Repeat("ü", maxMessage)})
	require(err == nil, "an incident with a title of 255 and a message of 10,000 characters", "%s", resultText(err))
}

// componentIsOnThePage uses a component of another page of the team.
func componentIsOnThePage(p *probe) {
	own := p.own.Resources[StatusPage]
	for _, page := range messageIDs(p.of(listStatusPages).call(nil)) {
		components := call[*incidentv1.GetStatusPageResponse](p, getStatusPage, fields{"status_page_id": page}).GetComponents()
		if page == own || len(components) == 0 {
			continue
		}
		_, err := p.attempt(fields{"status_page_id": own, "component_ids": components[0].GetId()})
		must(expectViolations(err, fmt.Sprintf("the component %s of the page %s", components[0].GetId(), page), "component_ids"))
		return
	}
	must(skip("team %s has no component on another page", p.own.ID))
}

func updateIsAdded(p *probe) {
	incident := p.create(nil)
	const message = "The second update."
	added := p.update(incident.GetId(), fields{"status": monitoring, "message": message})
	expectUpdate("AddIncidentUpdate returns", monitoring, message, added)
	state := p.timeline(incident.GetId())
	updates := state.GetUpdates()
	require(len(updates) == 2, "2 updates in the timeline", "%d", len(updates))
	must(sameMessage("the timeline ends with", added, updates[1]))
	got := state.GetIncident().GetStatus()
	require(got == monitoring, "the status "+monitoring.String()+" of the incident", "%v", got)
	p.update(incident.GetId(), nil)
}

// expectUpdate checks the content of an update.
func expectUpdate(what string, status incidentv1.IncidentStatus, message string, got *incidentv1.IncidentUpdate) {
	must(sameMessage(what, &incidentv1.IncidentUpdate{
		Id: got.GetId(), Status: status, Message: message, CreatedAt: got.GetCreatedAt(),
	}, got))
}

// states creates an incident, adds an update with each status, and returns the incident after each.
func (p *probe) states(statuses ...incidentv1.IncidentStatus) (after []*incidentv1.Incident) {
	id := p.create(nil).GetId()
	for _, status := range statuses {
		p.update(id, fields{"status": status})
		after = append(after, p.timeline(id).GetIncident())
	}
	return after
}

func secondResolutionKeepsTime(p *probe) {
	after := p.states(monitoring, resolved, resolved)
	first, second := after[1].GetResolvedAt(), after[2].GetResolvedAt()
	require(first != nil, "resolved_at in a resolved incident", "no resolved_at")
	require(proto.Equal(first, second), "resolved_at "+timeText(first)+", as before", "resolved_at %s", timeText(second))
}

func anotherStatusReopens(p *probe) {
	open := p.states(resolved, investigating, resolved)[1]
	require(open.GetResolvedAt() == nil && open.GetStatus() == investigating,
		"the status "+investigating.String()+" and resolved_at absent", "%v and resolved_at %s", open.GetStatus(), timeText(open.GetResolvedAt()))
}

// writeIsAudited also counts the audit entry of the incident that an update is added to.
func writeIsAudited(p *probe) {
	incident, want := p.create(nil).GetId(), 1
	if p.method.Resource() != "" {
		p.call(fields{idField(p.method): incident})
		want++
	}
	n := 0
	for _, e := range call[*auditv1.ListAuditEntriesResponse](p, listAuditEntries, nil).GetEntries() {
		if e.GetResourceId() == incident && e.GetActorId() == p.actor.GetTokenId() && e.GetIpAddress() == p.actor.GetIpAddress() {
			n++
		}
	}
	require(n == want, fmt.Sprintf("%d audit entries of the actor on the incident", want), "%d", n)
}
