package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"opsgate/cmd/internal/backend/store/query"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

func (s *incidentService) ListStatusPages(
	ctx context.Context, r *incidentv1.ListStatusPagesRequest,
) (*incidentv1.ListStatusPagesResponse, error) {
	response := &incidentv1.ListStatusPagesResponse{}
	return response, s.store.ReadFor(ctx, r.GetTeamId(), func(q *query.Queries) error {
		pages, err := s.pages(ctx, q, r.GetTeamId())
		if err != nil {
			return err
		}
		return list(&response.StatusPages, "status pages", pages.pageMessage)(q.ListStatusPages(ctx, r.GetTeamId()))
	})
}

func (s *incidentService) GetStatusPage(
	ctx context.Context, r *incidentv1.GetStatusPageRequest,
) (*incidentv1.GetStatusPageResponse, error) {
	response := &incidentv1.GetStatusPageResponse{}
	return response, s.store.ReadFor(ctx, r.GetTeamId(), func(q *query.Queries) error {
		row, err := findPage(ctx, q, r)
		if err != nil {
			return err
		}
		pages, err := s.pages(ctx, q, r.GetTeamId())
		if err != nil {
			return err
		}
		response.StatusPage, response.Components = pages.pageMessage(row), pages.components[row.ID]
		return nil
	})
}

func (s *incidentService) ListStatusPageIncidents(
	ctx context.Context, r *incidentv1.ListStatusPageIncidentsRequest,
) (*incidentv1.ListStatusPageIncidentsResponse, error) {
	response := &incidentv1.ListStatusPageIncidentsResponse{}
	return response, s.store.ReadFor(ctx, r.GetTeamId(), func(q *query.Queries) error {
		page, err := findPage(ctx, q, r)
		if err != nil {
			return err
		}
		return list(&response.Incidents, "page's incidents", incidentMessage)(q.ListStatusPageIncidents(ctx,
			query.ListStatusPageIncidentsParams{TeamID: r.GetTeamId(), StatusPageID: &page.ID, PageSize: maxPage}))
	})
}

// findPage returns the page that a request names, or NOT_FOUND.
func findPage(
	ctx context.Context, q *query.Queries, r interface {
		GetTeamId() string
		GetStatusPageId() string
	},
) (query.StatusPage, error) {
	row, err := q.GetStatusPage(ctx,
		query.GetStatusPageParams{TeamID: r.GetTeamId(), ID: strings.ToLower(r.GetStatusPageId())})
	return row, orNoSuch(err, "status page")
}

// A teamPages holds, by page, the components in their order, and the status that the page has at
// least because of its open incidents.
type teamPages struct {
	components map[string][]*incidentv1.StatusPageComponent
	incidents  map[string]incidentv1.PublicStatus
}

func (s *incidentService) pages(ctx context.Context, q *query.Queries, team string) (teamPages, error) {
	found := teamPages{
		components: map[string][]*incidentv1.StatusPageComponent{},
		incidents:  map[string]incidentv1.PublicStatus{},
	}
	components, err := q.ListComponents(ctx, team)
	if err != nil {
		return found, fmt.Errorf("list the components: %w", err)
	}
	for _, row := range components {
		found.components[row.StatusPageID] = append(found.components[row.StatusPageID], componentMessage(row))
	}
	impacts, err := q.ListPageImpacts(ctx, query.ListPageImpactsParams{TeamID: team, Now: s.options.Clock().UnixNano()})
	if err != nil {
		return found, fmt.Errorf("read the impacts of the open incidents: %w", err)
	}
	for _, row := range impacts {
		found.incidents[row.ID] = publicStatus(row.Impact)
	}
	return found, nil
}

// overall returns the status of a page: the worst of those of its components and its open
// incidents.
func (p teamPages) overall(page string) incidentv1.PublicStatus {
	worst := worse(incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL, p.incidents[page])
	for _, component := range p.components[page] {
		worst = worse(worst, component.GetStatus())
	}
	return worst
}

// worse returns the more severe of two statuses.
func worse(a, b incidentv1.PublicStatus) incidentv1.PublicStatus {
	order := []incidentv1.PublicStatus{
		incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL, incidentv1.PublicStatus_PUBLIC_STATUS_MAINTENANCE,
		incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED, incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE,
	}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

func (p teamPages) pageMessage(row query.StatusPage) *incidentv1.StatusPage {
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

// componentStatus returns the status of the component's monitor, or the component's own if it has
// no monitor.
func componentStatus(row query.ListComponentsRow) incidentv1.PublicStatus {
	if row.MonitorStatus == nil {
		return publicStatus(row.Status)
	}
	return publicStatus(map[string]string{statusUp: "operational", statusDegraded: "degraded",
		statusDown: "outage"}[*row.MonitorStatus])
}
