package service

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/store/query"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// Action types in the audit log and in the outbox.
const (
	incidentCreated = "incident.created"
	updatePosted    = "incident.update_posted"
)

func (s *incidentService) CreateIncident(
	ctx context.Context, r *incidentv1.CreateIncidentRequest,
) (*incidentv1.CreateIncidentResponse, error) {
	r, err := normaliseCreate(r)
	if err != nil {
		return nil, err
	}
	response := &incidentv1.CreateIncidentResponse{}
	response.Replayed, err = s.executeOnce(ctx, r, response, func(q *query.Queries, now int64) (err error) {
		if err := checkReferences(ctx, q, r); err != nil {
			return err
		}
		if err := checkRoomForIncident(ctx, q, r); err != nil {
			return err
		}
		response.Incident, err = createIncident(ctx, q, r, now)
		return err
	})
	return response, err
}

// checkReferences returns violations if the request names a page or components that the team does
// not have.
func checkReferences(ctx context.Context, q *query.Queries, r *incidentv1.CreateIncidentRequest) error {
	var problems violations
	if r.StatusPageId != nil {
		_, err := q.GetStatusPage(ctx, query.GetStatusPageParams{TeamID: r.GetTeamId(), ID: r.GetStatusPageId()})
		switch {
		case errors.Is(err, sql.ErrNoRows):
			problems.add("status_page_id", unknownPage)
		case err != nil:
			return fmt.Errorf("look for the status page: %w", err)
		}
	}
	for _, id := range r.GetComponentIds() {
		component, err := q.GetComponent(ctx, query.GetComponentParams{TeamID: r.GetTeamId(), ID: id})
		if errors.Is(err, sql.ErrNoRows) {
			problems.add("component_ids", unknownComponent)
			break
		}
		if err != nil {
			return fmt.Errorf("look for a component: %w", err)
		}
		if r.StatusPageId != nil && component.StatusPageID != r.GetStatusPageId() {
			problems.add("component_ids", componentOnOtherPage)
			break
		}
	}
	return problems.err()
}

func createIncident(
	ctx context.Context, q *query.Queries, r *incidentv1.CreateIncidentRequest, now int64,
) (*incidentv1.Incident, error) {
	status, _ := storedStatus(r.GetStatus())
	impact, _ := storedImpact(r.GetImpact())
	row := query.Incident{
		ID: newID(), TeamID: r.GetTeamId(), StatusPageID: r.StatusPageId, Title: r.GetTitle(),
		Status: status, Impact: impact, StartedAt: now, CreatedAt: now, AffectsPage: true,
	}
	if status == resolved {
		row.ResolvedAt = &now
	}
	update := postedUpdate{
		incident: row, event: incidentCreated, status: status, message: r.GetMessage(),
		notify: true, actor: r.GetActor(), at: now,
	}
	if err := update.open(ctx, q, r.GetComponentIds()); err != nil {
		return nil, err
	}
	return incidentMessage(row), nil
}

func (s *incidentService) AddIncidentUpdate(
	ctx context.Context, r *incidentv1.AddIncidentUpdateRequest,
) (*incidentv1.AddIncidentUpdateResponse, error) {
	r, err := normaliseUpdate(r)
	if err != nil {
		return nil, err
	}
	response := &incidentv1.AddIncidentUpdateResponse{}
	response.Replayed, err = s.executeOnce(ctx, r, response, func(q *query.Queries, now int64) error {
		incident, err := findIncident(ctx, q, r)
		if err != nil {
			return err
		}
		if err := checkRoomForUpdate(ctx, q, incident, r); err != nil {
			return err
		}
		status, _ := storedStatus(r.GetStatus())
		update := postedUpdate{
			incident: incident, event: updatePosted, status: status, message: r.GetMessage(),
			notify: r.GetNotifySubscribers(), actor: r.GetActor(), at: now,
		}
		if err := update.setStatus(ctx, q); err != nil {
			return err
		}
		posted, err := update.write(ctx, q)
		if err != nil {
			return err
		}
		response.Update = updateMessage(posted)
		return nil
	})
	return response, err
}

// A postedUpdate is an update of an incident, with its notification and its audit entry.
type postedUpdate struct {
	incident query.Incident
	event    string
	status   string
	message  string
	notify   bool
	actor    *incidentv1.Actor
	at       int64
}

// open stores a new incident with its affected components and the postedUpdate, its first.
func (p postedUpdate) open(ctx context.Context, q *query.Queries, components []string) error {
	if err := q.InsertIncident(ctx, query.InsertIncidentParams(p.incident)); err != nil {
		return fmt.Errorf("write the incident: %w", err)
	}
	for _, component := range components {
		err := q.InsertIncidentComponent(ctx, query.InsertIncidentComponentParams{
			TeamID: p.incident.TeamID, IncidentID: p.incident.ID, ComponentID: component,
		})
		if err != nil {
			return fmt.Errorf("write an affected component: %w", err)
		}
	}
	_, err := p.write(ctx, q)
	return err
}

// setStatus gives the incident the status of the postedUpdate.
func (p postedUpdate) setStatus(ctx context.Context, q *query.Queries) error {
	err := q.SetIncidentStatus(ctx, query.SetIncidentStatusParams{
		TeamID: p.incident.TeamID, ID: p.incident.ID, Status: p.status, ResolvedAt: p.resolvedAt(),
	})
	if err != nil {
		return fmt.Errorf("set the incident's status: %w", err)
	}
	return nil
}

// resolvedAt returns the time of resolution after the postedUpdate. An incident that was already
// resolved keeps its time.
func (p postedUpdate) resolvedAt() *int64 {
	switch {
	case p.status != resolved:
		return nil
	case p.incident.ResolvedAt != nil:
		return p.incident.ResolvedAt
	default:
		return &p.at
	}
}

// write stores the update, the notification and the audit entry.
func (p postedUpdate) write(ctx context.Context, q *query.Queries) (query.IncidentUpdate, error) {
	update := query.IncidentUpdate{
		ID: newID(), TeamID: p.incident.TeamID, IncidentID: p.incident.ID,
		Status: p.status, Message: p.message, CreatedAt: p.at,
	}
	if err := q.InsertIncidentUpdate(ctx, query.InsertIncidentUpdateParams(update)); err != nil {
		return query.IncidentUpdate{}, fmt.Errorf("write the update: %w", err)
	}
	if err := p.notifySubscribers(ctx, q, update); err != nil {
		return query.IncidentUpdate{}, err
	}
	done := audit.Action{
		Team: p.incident.TeamID, Kind: p.event, ResourceID: p.incident.ID, At: p.at,
		Actor: p.actor.GetTokenId(), IPAddress: p.actor.GetIpAddress(), RequestID: p.actor.GetRequestId(),
	}
	return update, done.Record(ctx, q)
}

// notifySubscribers writes a notification if the incident is on a status page, with a delivery to
// each subscriber of the page. A notification is suppressed, and has no deliveries, if the update
// notifies no subscriber or the page is suspended: nothing is sent late when the page is resumed.
func (p postedUpdate) notifySubscribers(ctx context.Context, q *query.Queries, update query.IncidentUpdate) error {
	if p.incident.StatusPageID == nil {
		return nil
	}
	page, err := q.GetStatusPage(ctx, query.GetStatusPageParams{TeamID: p.incident.TeamID, ID: *p.incident.StatusPageID})
	if err != nil {
		return fmt.Errorf("look for the status page: %w", err)
	}
	row := query.InsertNotificationParams{
		ID: newID(), TeamID: p.incident.TeamID, StatusPageID: page.ID, IncidentID: p.incident.ID,
		UpdateID: update.ID, Event: p.event, Suppressed: !p.notify || page.Suspended, CreatedAt: update.CreatedAt,
		Traceparent: traceparentOf(ctx),
	}
	if err := q.InsertNotification(ctx, row); err != nil {
		return fmt.Errorf("write the notification: %w", err)
	}
	if row.Suppressed {
		return nil
	}
	err = q.InsertDeliveriesAnyTeam(ctx, query.InsertDeliveriesAnyTeamParams{
		NotificationID: row.ID, CreatedAt: row.CreatedAt, StatusPageID: page.ID,
	})
	if err != nil {
		return fmt.Errorf("write the deliveries: %w", err)
	}
	return nil
}
