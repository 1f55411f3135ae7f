package conformance

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

const addIncidentUpdate = "incident/AddIncidentUpdate"

// newUpdate returns a valid request, which notifies no subscribers.
func (s *subject) newUpdate(team, incident string) *incidentv1.AddIncidentUpdateRequest {
	return &incidentv1.AddIncidentUpdateRequest{
		TeamId: team, Actor: s.actor, IncidentId: incident, Status: resolved,
		Message: "Created by opsgate conformance. There is no real incident.",
	}
}

func updateChecks() []Check {
	return []Check{
		{
			Name: addIncidentUpdate + "/adds", Writes: true, run: updateIsAdded,
			Sentence: "AddIncidentUpdate adds an update to the timeline and gives the incident the update's status.",
		},
		{
			Name: addIncidentUpdate + "/resolves", Writes: true, run: secondResolutionKeepsTime,
			Sentence: "The status resolved sets `resolved_at`, unless it is already set.",
		},
		{
			Name: addIncidentUpdate + "/reopens", Writes: true, run: anotherStatusReopens,
			Sentence: "Any status other than resolved clears `resolved_at`.",
		},
		{
			Name: addIncidentUpdate + "/status", Writes: true, run: refusesUpdate("status",
				updateChange{"no status", func(r *incidentv1.AddIncidentUpdateRequest) { r.Status = 0 }},
				updateChange{"an unknown status", func(r *incidentv1.AddIncidentUpdateRequest) { r.Status = unknownValue }},
			),
			Sentence: "INVALID_ARGUMENT naming `status` when it is not set or unknown.",
		},
		{
			Name: addIncidentUpdate + "/message", Writes: true, run: refusesUpdate("message",
				updateChange{"no message", func(r *incidentv1.AddIncidentUpdateRequest) { r.Message = "" }},
				updateChange{"a message of 10,001 characters", func(r *incidentv1.AddIncidentUpdateRequest) {
					r.Message = strings.Repeat("x", maxMessage+1)
				}},
			),
			Sentence: "INVALID_ARGUMENT naming `message`, which has 1 to 10,000 characters.",
		},
		{
			Name: addIncidentUpdate + "/audited", Writes: true, run: updateIsAudited,
			Sentence: "A write has an audit entry, which names the actor.",
		},
	}
}

// An updateChange makes a valid request invalid.
type updateChange struct {
	what   string
	change func(*incidentv1.AddIncidentUpdateRequest)
}

// refusesUpdate returns a check that AddIncidentUpdate answers each change with INVALID_ARGUMENT naming the field.
func refusesUpdate(field string, changes ...updateChange) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		incident, err := s.create(ctx, s.newIncident(s.teams[0].ID, "to be updated"))
		if err != nil {
			return err
		}
		for _, c := range changes {
			r := s.newUpdate(s.teams[0].ID, incident.GetId())
			c.change(r)
			_, err := s.incident.AddIncidentUpdate(ctx, r)
			if err := expectViolations(err, c.what, field); err != nil {
				return err
			}
		}
		return nil
	}
}

// addUpdates adds an update with each status to a new incident, and returns the incident after each.
func (s *subject) addUpdates(
	ctx context.Context, statuses ...incidentv1.IncidentStatus,
) (after []*incidentv1.GetIncidentResponse, err error) {
	team := s.teams[0].ID
	incident, err := s.create(ctx, s.newIncident(team, "to be updated"))
	if err != nil {
		return nil, err
	}
	for _, status := range statuses {
		r := s.newUpdate(team, incident.GetId())
		r.Status = status
		if _, err := s.incident.AddIncidentUpdate(ctx, r); err != nil {
			return nil, err
		}
		state, err := s.timeline(ctx, team, incident.GetId())
		if err != nil {
			return nil, err
		}
		after = append(after, state)
	}
	return after, nil
}

func updateIsAdded(ctx context.Context, s *subject) error {
	team := s.teams[0].ID
	incident, err := s.create(ctx, s.newIncident(team, "to be updated"))
	if err != nil {
		return err
	}
	r := s.newUpdate(team, incident.GetId())
	r.Status, r.Message = monitoring, "The second update."
	response, err := s.incident.AddIncidentUpdate(ctx, r)
	if err != nil {
		return err
	}
	posted := response.GetUpdate()
	sent := &incidentv1.IncidentUpdate{Id: posted.GetId(), Status: r.GetStatus(), Message: r.GetMessage(), CreatedAt: posted.GetCreatedAt()}
	if err := sameMessage("AddIncidentUpdate returns", sent, posted); err != nil {
		return err
	}
	state, err := s.timeline(ctx, team, incident.GetId())
	if err != nil {
		return err
	}
	u := state.GetUpdates()
	if len(u) != 2 {
		return expected("2 updates in the timeline", "%s", timelineText(u...))
	}
	if err := sameMessage("the timeline ends with", posted, u[1]); err != nil {
		return err
	}
	if got := state.GetIncident().GetStatus(); got != r.GetStatus() {
		return expected("the status "+r.GetStatus().String()+" of the incident", "%v", got)
	}
	return s.closeIncident(ctx, team, incident.GetId())
}

// secondResolutionKeepsTime creates an open incident and resolves it twice.
func secondResolutionKeepsTime(ctx context.Context, s *subject) error {
	after, err := s.addUpdates(ctx, monitoring, resolved, resolved)
	if err != nil {
		return err
	}
	first, second := after[1].GetIncident(), after[2].GetIncident()
	if first.ResolvedAt == nil {
		return expected("resolved_at in a resolved incident", "no resolved_at")
	}
	if !proto.Equal(first.GetResolvedAt(), second.GetResolvedAt()) {
		return expected("resolved_at "+timeText(first.GetResolvedAt())+", as before", "resolved_at %s", timeText(second.GetResolvedAt()))
	}
	return nil
}

func anotherStatusReopens(ctx context.Context, s *subject) error {
	after, err := s.addUpdates(ctx, resolved, investigating, resolved)
	if err != nil {
		return err
	}
	if open := after[1].GetIncident(); open.ResolvedAt != nil || open.GetStatus() != investigating {
		return expected("the status "+investigating.String()+" and resolved_at absent", "%v and resolved_at %s",
			open.GetStatus(), timeText(open.GetResolvedAt()))
	}
	return nil
}

func updateIsAudited(ctx context.Context, s *subject) error {
	after, err := s.addUpdates(ctx, resolved)
	if err != nil {
		return err
	}
	const entries = 2 // of the creation and of the update
	return s.expectAuditEntries(ctx, after[0].GetIncident().GetId(), entries)
}
