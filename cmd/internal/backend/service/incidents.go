package service

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

type incidentService struct {
	incidentv1.UnimplementedIncidentServiceServer
	store    *store.Store
	clock    func() time.Time
	inFlight *keySet
	written  *signal
}

// Incidents returns the incident service, for callers in the same process. It does not log calls.
func (b *Backend) Incidents() incidentv1.IncidentServiceServer {
	return &incidentService{store: b.store, clock: b.clock, inFlight: b.inFlight, written: b.written}
}

func (s *incidentService) ListIncidents(
	ctx context.Context, r *incidentv1.ListIncidentsRequest,
) (*incidentv1.ListIncidentsResponse, error) {
	var problems violations
	problems.pageSize(r.GetPageSize())
	if err := problems.err(); err != nil {
		return nil, err
	}
	response := &incidentv1.ListIncidentsResponse{}
	return response, s.store.Read(ctx, func(q *query.Queries) error {
		rows, ignored, err := incidentPage(ctx, q, r)
		if err != nil {
			return err
		}
		response.CursorIgnored = ignored
		if more := len(rows) > int(r.GetPageSize()); more {
			rows = rows[:r.GetPageSize()]
			if response.NextCursor, err = incidentCursor.encode(rows[len(rows)-1].ID); err != nil {
				return fmt.Errorf("make a cursor: %w", err)
			}
		}
		response.Incidents = convert(rows, incidentMessage)
		return nil
	})
}

// incidentPage returns at most one row more than the page holds, and whether the cursor was ignored.
func incidentPage(
	ctx context.Context, q *query.Queries, r *incidentv1.ListIncidentsRequest,
) (rows []query.Incident, ignored bool, err error) {
	limit := int64(r.GetPageSize()) + 1
	after, found, err := incidentRow(ctx, q, r)
	if err != nil {
		return nil, false, fmt.Errorf("look up the cursor: %w", err)
	}
	if found {
		rows, err = q.ListIncidentsAfter(ctx, query.ListIncidentsAfterParams{
			TeamID: r.GetTeamId(), CreatedAt: after.CreatedAt, ID: after.ID, PageSize: limit,
		})
	} else {
		rows, err = q.ListIncidents(ctx, query.ListIncidentsParams{TeamID: r.GetTeamId(), PageSize: limit})
	}
	if err != nil {
		return nil, false, fmt.Errorf("list the incidents: %w", err)
	}
	return rows, r.GetCursor() != "" && !found, nil
}

// incidentRow returns the row that the cursor names, and whether it is a row of the team.
func incidentRow(
	ctx context.Context, q *query.Queries, r *incidentv1.ListIncidentsRequest,
) (row query.Incident, found bool, err error) {
	id, ok := incidentCursor.decode(r.GetCursor())
	if !ok {
		return query.Incident{}, false, nil
	}
	row, err = q.GetIncident(ctx, query.GetIncidentParams{TeamID: r.GetTeamId(), ID: id})
	if errors.Is(err, sql.ErrNoRows) {
		return query.Incident{}, false, nil
	}
	return row, err == nil, err
}

func (s *incidentService) GetIncident(
	ctx context.Context, r *incidentv1.GetIncidentRequest,
) (*incidentv1.GetIncidentResponse, error) {
	response := &incidentv1.GetIncidentResponse{}
	return response, s.store.Read(ctx, func(q *query.Queries) error {
		row, err := findIncident(ctx, q, r)
		if err != nil {
			return err
		}
		updates, err := q.ListIncidentUpdates(ctx, query.ListIncidentUpdatesParams{
			TeamID: r.GetTeamId(), IncidentID: row.ID,
			MaxUpdates: maxUpdates + 1, MaxBytes: maxUpdateBytes + maxMessageBytes, // with the reserve for a resolution
		})
		if err != nil {
			return fmt.Errorf("list the updates: %w", err)
		}
		response.Incident, response.Updates = incidentMessage(row), convert(updates, updateMessage)
		return nil
	})
}

// findIncident returns the incident that a request names, or NOT_FOUND.
func findIncident(
	ctx context.Context, q *query.Queries, r interface {
		GetTeamId() string
		GetIncidentId() string
	},
) (query.Incident, error) {
	id, ok := canonicalID(r.GetIncidentId())
	if !ok {
		return query.Incident{}, noSuch("incident")
	}
	row, err := q.GetIncident(ctx, query.GetIncidentParams{TeamID: r.GetTeamId(), ID: id})
	if errors.Is(err, sql.ErrNoRows) {
		return query.Incident{}, noSuch("incident")
	}
	if err != nil {
		return query.Incident{}, fmt.Errorf("get the incident: %w", err)
	}
	return row, nil
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
