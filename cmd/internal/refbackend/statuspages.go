package refbackend

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"opsgate/cmd/internal/refbackend/store/query"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

func (s *incidentService) ListStatusPages(
	ctx context.Context, r *incidentv1.ListStatusPagesRequest,
) (*incidentv1.ListStatusPagesResponse, error) {
	response := &incidentv1.ListStatusPagesResponse{}
	return response, s.store.Read(ctx, func(q *query.Queries) error {
		rows, err := q.ListStatusPages(ctx, r.GetTeamId())
		if err != nil {
			return fmt.Errorf("list the status pages: %w", err)
		}
		shown, err := s.shownPages(ctx, q, r.GetTeamId())
		if err != nil {
			return err
		}
		response.StatusPages = views(rows, shown.pageMessage)
		return nil
	})
}

func (s *incidentService) GetStatusPage(
	ctx context.Context, r *incidentv1.GetStatusPageRequest,
) (*incidentv1.GetStatusPageResponse, error) {
	response := &incidentv1.GetStatusPageResponse{}
	return response, s.store.Read(ctx, func(q *query.Queries) error {
		row, err := findPage(ctx, q, r)
		if err != nil {
			return err
		}
		shown, err := s.shownPages(ctx, q, r.GetTeamId())
		if err != nil {
			return err
		}
		response.StatusPage, response.Components = shown.pageMessage(row), shown.components[row.ID]
		return nil
	})
}

func (s *incidentService) ListStatusPageIncidents(
	ctx context.Context, r *incidentv1.ListStatusPageIncidentsRequest,
) (*incidentv1.ListStatusPageIncidentsResponse, error) {
	response := &incidentv1.ListStatusPageIncidentsResponse{}
	return response, s.store.Read(ctx, func(q *query.Queries) error {
		page, err := findPage(ctx, q, r)
		if err != nil {
			return err
		}
		rows, err := q.ListStatusPageIncidents(ctx, query.ListStatusPageIncidentsParams{
			TeamID: r.GetTeamId(), StatusPageID: &page.ID, PageSize: maxPage,
		})
		if err != nil {
			return fmt.Errorf("list the page's incidents: %w", err)
		}
		response.Incidents = views(rows, incidentMessage)
		return nil
	})
}

// findPage returns the page that a request names, or NOT_FOUND.
func findPage(
	ctx context.Context, q *query.Queries, r interface {
		GetTeamId() string
		GetStatusPageId() string
	},
) (query.StatusPage, error) {
	id, ok := canonicalID(r.GetStatusPageId())
	if !ok {
		return query.StatusPage{}, noSuch("status page")
	}
	row, err := q.GetStatusPage(ctx, query.GetStatusPageParams{TeamID: r.GetTeamId(), ID: id})
	if errors.Is(err, sql.ErrNoRows) {
		return query.StatusPage{}, noSuch("status page")
	}
	if err != nil {
		return query.StatusPage{}, fmt.Errorf("get the status page: %w", err)
	}
	return row, nil
}

// A teamsPages is what the pages of a team show at one moment: by page, the components in their order, and whether
// maintenance is under way.
type teamsPages struct {
	components  map[string][]*incidentv1.StatusPageComponent
	maintenance map[string]bool
}

func (s *incidentService) shownPages(ctx context.Context, q *query.Queries, team string) (teamsPages, error) {
	shown := teamsPages{
		components:  map[string][]*incidentv1.StatusPageComponent{},
		maintenance: map[string]bool{},
	}
	components, err := q.ListComponents(ctx, team)
	if err != nil {
		return shown, fmt.Errorf("list the components: %w", err)
	}
	for _, row := range components {
		shown.components[row.StatusPageID] = append(shown.components[row.StatusPageID], componentMessage(row))
	}
	pages, err := q.ListPagesUnderMaintenance(ctx, query.ListPagesUnderMaintenanceParams{
		TeamID: team, Now: s.clock().UnixNano(),
	})
	if err != nil {
		return shown, fmt.Errorf("list the pages under maintenance: %w", err)
	}
	for _, id := range pages {
		shown.maintenance[*id] = true
	}
	return shown, nil
}

// overall is what a page says of the whole: the worst of its components, and short of trouble, whether maintenance is under
// way.
func (p teamsPages) overall(page string) incidentv1.PublicStatus {
	worst := incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL
	if p.maintenance[page] {
		worst = incidentv1.PublicStatus_PUBLIC_STATUS_MAINTENANCE
	}
	for _, component := range p.components[page] {
		if severity(component.GetStatus()) > severity(worst) {
			worst = component.GetStatus()
		}
	}
	return worst
}

// severity orders the statuses by how bad they are for a visitor.
func severity(status incidentv1.PublicStatus) int {
	switch status {
	case incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE:
		return 3
	case incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED:
		return 2
	case incidentv1.PublicStatus_PUBLIC_STATUS_MAINTENANCE:
		return 1
	case incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL, incidentv1.PublicStatus_PUBLIC_STATUS_UNSPECIFIED:
	}
	return 0
}

func (p teamsPages) pageMessage(row query.StatusPage) *incidentv1.StatusPage {
	return &incidentv1.StatusPage{
		Id:             row.ID,
		Name:           row.Name,
		UniqueHostname: row.UniqueHostname,
		Slug:           row.Slug,
		Visibility:     row.Visibility,
		PrimaryColor:   row.PrimaryColor,
		Description:    row.Description,
		Suspended:      row.Suspended,
		OverallStatus:  p.overall(row.ID),
		CreatedAt:      timestamp(row.CreatedAt),
	}
}

func componentMessage(row query.ListComponentsRow) *incidentv1.StatusPageComponent {
	return &incidentv1.StatusPageComponent{
		Id:        row.ID,
		Name:      row.Name,
		GroupName: row.GroupName,
		Position:  int32(row.Position),
		Status:    componentStatus(row),
	}
}

// componentStatus is that of the component's monitor where it is linked to one, else its own.
func componentStatus(row query.ListComponentsRow) incidentv1.PublicStatus {
	if row.MonitorStatus == nil {
		return publicStatus(row.Status)
	}
	switch *row.MonitorStatus {
	case "up":
		return incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL
	case "degraded":
		return incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED
	default:
		return incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE
	}
}
