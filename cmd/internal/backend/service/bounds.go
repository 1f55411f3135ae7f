package service

import (
	"context"
	"fmt"
	"unicode/utf8"

	"opsgate/cmd/internal/backend/store/query"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// Bounds of what a team can store, so that every response is far smaller than the 8 MiB that the
// gateway accepts (docs/platform/reference-backend.md, "Bounds").
const (
	// maxOpenIncidents is the number of open incidents from which a team cannot open another.
	// Monitors still can, one each.
	maxOpenIncidents = 1000
	// maxUpdates and maxUpdateBytes are the number of updates of an incident and the bytes of their
	// texts. An update that resolves an open incident may exceed both; after it, an incident that
	// is full cannot be reopened.
	maxUpdates     = 2000
	maxUpdateBytes = 1 << 20
	// maxMessageBytes is the size of the largest message.
	maxMessageBytes = maxMessageText * utf8.UTFMax
)

// checkRoomForIncident returns a violation if the request would open an incident too many.
func checkRoomForIncident(ctx context.Context, q *query.Queries, r *incidentv1.CreateIncidentRequest) error {
	if status, _ := storedStatus(r.GetStatus()); status == resolved {
		return nil
	}
	return checkOpenIncidents(ctx, q, r.GetTeamId(), "title")
}

// checkOpenIncidents returns a violation of the field if the team cannot open another incident.
func checkOpenIncidents(ctx context.Context, q *query.Queries, team, field string) error {
	n, err := q.CountOpenIncidents(ctx, query.CountOpenIncidentsParams{TeamID: team, MaxCount: maxOpenIncidents})
	if err != nil {
		return fmt.Errorf("count the open incidents: %w", err)
	}
	if n >= maxOpenIncidents {
		return invalidField(field,
			fmt.Sprintf("would be one open incident too many: a team has at most %d; resolve others first",
				maxOpenIncidents))
	}
	return nil
}

// checkRoomForUpdate returns a violation if the incident has no room for the update, or if the
// update would reopen it and the team cannot open another incident.
func checkRoomForUpdate(
	ctx context.Context, q *query.Queries, incident query.Incident, r *incidentv1.AddIncidentUpdateRequest,
) error {
	isOpen := incident.Status != resolved
	status, _ := storedStatus(r.GetStatus())
	if isOpen && status == resolved {
		return nil
	}
	stored, err := q.MeasureIncidentUpdates(ctx,
		query.MeasureIncidentUpdatesParams{TeamID: incident.TeamID, IncidentID: incident.ID})
	if err != nil {
		return fmt.Errorf("measure the updates: %w", err)
	}
	if stored.Updates >= maxUpdates || stored.Bytes+int64(len(r.GetMessage())) > maxUpdateBytes {
		return invalidField("message",
			fmt.Sprintf("would be too much for this incident: its updates are at most %d, with %d bytes of text "+
				"together", maxUpdates, maxUpdateBytes))
	}
	if isOpen || status == resolved {
		return nil
	}
	return checkOpenIncidents(ctx, q, incident.TeamID, "message")
}
