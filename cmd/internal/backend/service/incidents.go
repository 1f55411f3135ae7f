package service

import (
	"context"
	"strings"

	"opsgate/cmd/internal/backend/store/query"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

type incidentService struct {
	incidentv1.UnimplementedIncidentServiceServer
	*Backend
}

// Incidents returns the incident service, for callers in the same process. It does not log calls.
func (b *Backend) Incidents() incidentv1.IncidentServiceServer {
	return &incidentService{Backend: b}
}

func (s *incidentService) ListIncidents(
	ctx context.Context, r *incidentv1.ListIncidentsRequest,
) (*incidentv1.ListIncidentsResponse, error) {
	response := &incidentv1.ListIncidentsResponse{}
	return response, s.store.ReadFor(ctx, r.GetTeamId(), func(q *query.Queries) error {
		page, err := readPage(r, pageQueries[query.Incident]{
			cursor: incidentCursor,
			find: func(id string) (query.Incident, error) {
				return q.GetIncident(ctx, query.GetIncidentParams{TeamID: r.GetTeamId(), ID: id})
			},
			place: func(row query.Incident) place { return place{row.CreatedAt, row.ID} },
			list: func(after place, limit int64) ([]query.Incident, error) {
				return q.ListIncidents(ctx, query.ListIncidentsParams{
					TeamID: r.GetTeamId(), CreatedAt: after.createdAt, ID: after.id, PageSize: limit,
				})
			},
		})
		response.Incidents, response.NextCursor, response.CursorIgnored = convert(page.rows, incidentMessage), page.next,
			page.cursorIgnored
		return err
	})
}

func (s *incidentService) GetIncident(
	ctx context.Context, r *incidentv1.GetIncidentRequest,
) (*incidentv1.GetIncidentResponse, error) {
	response := &incidentv1.GetIncidentResponse{}
	return response, s.store.ReadFor(ctx, r.GetTeamId(), func(q *query.Queries) error {
		row, err := findIncident(ctx, q, r)
		if err != nil {
			return err
		}
		response.Incident = incidentMessage(row)
		return list(&response.Updates, "updates", updateMessage)(q.ListIncidentUpdates(ctx, query.ListIncidentUpdatesParams{
			TeamID: r.GetTeamId(), IncidentID: row.ID,
			MaxUpdates: maxUpdates + 1, MaxBytes: maxUpdateBytes + maxMessageBytes, // with the reserve for a resolution
		}))
	})
}

// findIncident returns the incident that a request names, or NOT_FOUND.
func findIncident(
	ctx context.Context, q *query.Queries, r interface {
		GetTeamId() string
		GetIncidentId() string
	},
) (query.Incident, error) {
	row, err := q.GetIncident(ctx, query.GetIncidentParams{TeamID: r.GetTeamId(), ID: strings.ToLower(r.GetIncidentId())})
	return row, orNoSuch(err, "incident")
}

func incidentMessage(row query.Incident) *incidentv1.Incident {
	return &incidentv1.Incident{
		Id:            row.ID,
		Title:         row.Title,
		Status:        incidentStatus(row.Status),
		Impact:        incidentImpact(row.Impact),
		StatusPageId:  row.StatusPageID,
		IsMaintenance: row.IsMaintenance,
		StartedAt:     timestamp(row.StartedAt),
		ResolvedAt:    optionalTimestamp(row.ResolvedAt),
		CreatedAt:     timestamp(row.CreatedAt),
	}
}

func updateMessage(row query.IncidentUpdate) *incidentv1.IncidentUpdate {
	return &incidentv1.IncidentUpdate{
		Id:        row.ID,
		Status:    incidentStatus(row.Status),
		Message:   row.Message,
		CreatedAt: timestamp(row.CreatedAt),
	}
}
