package conformance

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
	auditv1 "opsgate/proto/ops/audit/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

const createIncident = "incident/CreateIncident"

const (
	investigating = incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING
	monitoring    = incidentv1.IncidentStatus_INCIDENT_STATUS_MONITORING
	resolved      = incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED
)

// newIncident returns a valid request. The title contains the purpose. The incident is resolved from the start, so that no open incident
// stays behind.
func (s *subject) newIncident(team, purpose string) *incidentv1.CreateIncidentRequest {
	return &incidentv1.CreateIncidentRequest{
		TeamId: team, Actor: s.actor, Title: "Conformance check (" + purpose + ") " + uuid.NewString(),
		Status: resolved, Impact: incidentv1.IncidentImpact_INCIDENT_IMPACT_NONE,
		Message: "Created by opsgate conformance. There is no real incident.",
	}
}

// create creates an incident.
func (s *subject) create(ctx context.Context, r *incidentv1.CreateIncidentRequest) (*incidentv1.Incident, error) {
	response, err := s.incident.CreateIncident(ctx, r)
	return response.GetIncident(), err
}

func createChecks() []Check {
	return []Check{
		{
			Name: createIncident + "/creates", Writes: true, run: createsIncident,
			Sentence: "CreateIncident creates an incident and its first update. `started_at` is the time of the call.",
		},
		{
			Name: createIncident + "/resolved", Writes: true, run: createdAsResolved,
			Sentence: "With the status resolved, `resolved_at` is the time of the call.",
		},
		{
			Name: createIncident + "/attached", Writes: true, Needs: []Kind{StatusPage, Component}, run: incidentIsAttached,
			Sentence: "The incident is attached to the given status page.",
		},
		{
			Name: createIncident + "/longest", Writes: true, run: longestIsAccepted,
			Sentence: "A title has up to 255 characters, and a message up to 10,000.",
		},
		{
			Name: createIncident + "/audited", Writes: true, run: creationIsAudited,
			Sentence: "A write has an audit entry, which names the actor.",
		},
	}
}

func createsIncident(ctx context.Context, s *subject) error {
	r := s.newIncident(s.teams[0].ID, "creates")
	r.Status = investigating
	created, err := s.create(ctx, r)
	if err != nil {
		return err
	}
	want := &incidentv1.Incident{
		Id: created.GetId(), Title: r.GetTitle(), Status: r.GetStatus(), Impact: r.GetImpact(),
		StartedAt: created.GetCreatedAt(), CreatedAt: created.GetCreatedAt(),
	}
	if err := sameMessage("CreateIncident returns", want, created); err != nil {
		return err
	}
	response, err := s.timeline(ctx, r.GetTeamId(), created.GetId())
	if err != nil {
		return err
	}
	if err := sameMessage("GetIncident returns", created, response.GetIncident()); err != nil {
		return err
	}
	first := &incidentv1.IncidentUpdate{Status: r.GetStatus(), Message: r.GetMessage()}
	if want, got := timelineText(first), timelineText(response.GetUpdates()...); want != got {
		return expected(want, "%s", got)
	}
	newest, err := s.incident.ListIncidents(ctx, &incidentv1.ListIncidentsRequest{TeamId: r.GetTeamId(), PageSize: contract.MaxPageSize})
	if err != nil {
		return err
	}
	if n := count(newest.GetIncidents(), created.GetId()); n != 1 {
		return expected("the incident 1 time on the first page of ListIncidents", "%d times", n)
	}
	return s.closeIncident(ctx, r.GetTeamId(), created.GetId())
}

// closeIncident resolves an incident.
func (s *subject) closeIncident(ctx context.Context, team, id string) error {
	_, err := s.incident.AddIncidentUpdate(ctx, s.newUpdate(team, id))
	return err
}

// count returns how many of the incidents have the id.
func count(incidents []*incidentv1.Incident, id string) (n int) {
	for _, incident := range incidents {
		if incident.GetId() == id {
			n++
		}
	}
	return n
}

func createdAsResolved(ctx context.Context, s *subject) error {
	created, err := s.create(ctx, s.newIncident(s.teams[0].ID, "resolved"))
	if err != nil {
		return err
	}
	if created.ResolvedAt == nil || !created.GetResolvedAt().AsTime().Equal(timeOf(created.GetCreatedAt())) {
		return expected("resolved_at "+timeText(created.GetCreatedAt())+", the time of creation",
			"resolved_at %s", timeText(created.GetResolvedAt()))
	}
	return nil
}

func incidentIsAttached(ctx context.Context, s *subject) error {
	own := s.teams[0]
	r := s.newIncident(own.ID, "attached")
	r.StatusPageId = proto.String(own.Resources[StatusPage])
	r.ComponentIds = []string{own.Resources[Component]}
	created, err := s.create(ctx, r)
	if err != nil {
		return err
	}
	return sameID(r.GetStatusPageId(), created.GetStatusPageId())
}

// longestIsAccepted uses characters of more than one byte.
func longestIsAccepted(ctx context.Context, s *subject) error {
	r := s.newIncident(s.teams[0].ID, "longest")
	r.Title, r.Message = strings.Repeat("ü", maxTitle), strings.Repeat("ü", maxMessage)
	if _, err := s.create(ctx, r); err != nil {
		return expected("an incident with a title of 255 and a message of 10,000 characters", "%s", resultText(err))
	}
	return nil
}

func creationIsAudited(ctx context.Context, s *subject) error {
	r := s.newIncident(s.teams[0].ID, "audited")
	created, err := s.create(ctx, r)
	if err != nil {
		return err
	}
	return s.expectAuditEntries(ctx, created.GetId(), 1)
}

// expectAuditEntries returns a breach if the actor does not have the wanted number of audit entries for an incident.
func (s *subject) expectAuditEntries(ctx context.Context, incident string, want int) error {
	entries, err := s.entries(ctx, "")
	if err != nil {
		return err
	}
	var found []*auditv1.AuditEntry
	for _, e := range entries {
		if e.GetResourceId() == incident && e.GetActorId() == s.actor.GetTokenId() && e.GetIpAddress() == s.actor.GetIpAddress() {
			found = append(found, e)
		}
	}
	if len(found) != want {
		return expected(fmt.Sprintf("%d audit entries of the actor on the incident", want), "%d", len(found))
	}
	return nil
}
