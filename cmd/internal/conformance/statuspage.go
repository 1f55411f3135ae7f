package conformance

import (
	"context"
	"fmt"

	"opsgate/proto/contract"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

func statusPageChecks() []Check {
	return []Check{
		{
			Name: "incident/ListStatusPages/complete", Needs: []Kind{StatusPage}, run: listsAllPages,
			Sentence: "ListStatusPages returns all status pages of the team.",
		},
		{
			Name: "incident/ListStatusPages/order", Sentence: "Pages are ordered by name and then by id.", run: pagesAreOrdered,
		},
		{
			Name: "incident/GetStatusPage/the-one-asked-for", Needs: []Kind{StatusPage, Component}, run: returnsGivenPage,
			Sentence: "GetStatusPage returns the page with the given id and its components.",
		},
		{
			Name: "incident/GetStatusPage/order", Needs: []Kind{StatusPage}, Sentence: "Components are ordered by position and then by id.",
			run: func(ctx context.Context, s *subject) error {
				response, err := s.page(ctx, s.teams[0])
				if err != nil {
					return err
				}
				return orderedByPosition(rows(response.GetComponents(), func(m *incidentv1.StatusPageComponent) row {
					return row{id: m.GetId(), position: m.GetPosition()}
				}))
			},
		},
		{
			Name: "incident/ListStatusPageIncidents/order", Needs: []Kind{StatusPage},
			Sentence: "The incidents of a page are ordered by creation, newest first.",
			run: func(ctx context.Context, s *subject) error {
				response, err := s.pageIncidents(ctx, s.teams[0])
				if err != nil {
					return err
				}
				return newestFirst(rows(response.GetIncidents(), incidentRow))
			},
		},
		{
			Name: "incident/ListStatusPageIncidents/of-the-page", Needs: []Kind{StatusPage}, run: listsIncidentsOfThePage,
			Sentence: "ListStatusPageIncidents returns the incidents that are attached to the page, at most 100.",
		},
	}
}

func (s *subject) page(ctx context.Context, own Team) (*incidentv1.GetStatusPageResponse, error) {
	return s.incident.GetStatusPage(ctx, &incidentv1.GetStatusPageRequest{TeamId: own.ID, StatusPageId: own.Resources[StatusPage]})
}

func (s *subject) pageIncidents(ctx context.Context, own Team) (*incidentv1.ListStatusPageIncidentsResponse, error) {
	return s.incident.ListStatusPageIncidents(ctx,
		&incidentv1.ListStatusPageIncidentsRequest{TeamId: own.ID, StatusPageId: own.Resources[StatusPage]})
}

func listsAllPages(ctx context.Context, s *subject) error {
	return forBothTeams(s, func(own, _ Team) error {
		response, err := s.incident.ListStatusPages(ctx, &incidentv1.ListStatusPagesRequest{TeamId: own.ID})
		if err != nil {
			return err
		}
		return contains(own, StatusPage, messageIDs(response))
	})
}

func pagesAreOrdered(ctx context.Context, s *subject) error {
	response, err := s.incident.ListStatusPages(ctx, &incidentv1.ListStatusPagesRequest{TeamId: s.teams[0].ID})
	if err != nil {
		return err
	}
	return orderedByName(rows(response.GetStatusPages(), func(m *incidentv1.StatusPage) row {
		return row{id: m.GetId(), name: m.GetName()}
	}))
}

func returnsGivenPage(ctx context.Context, s *subject) error {
	own := s.teams[0]
	response, err := s.page(ctx, own)
	if err != nil {
		return err
	}
	if err := sameID(own.Resources[StatusPage], response.GetStatusPage().GetId()); err != nil {
		return err
	}
	return contains(own, Component, messageIDs(response))
}

func listsIncidentsOfThePage(ctx context.Context, s *subject) error {
	own := s.teams[0]
	response, err := s.pageIncidents(ctx, own)
	if err != nil {
		return err
	}
	if n := len(response.GetIncidents()); n > contract.MaxPageSize {
		return expected("at most 100 incidents", "%d incidents", n)
	}
	for _, incident := range response.GetIncidents() {
		if incident.GetStatusPageId() != own.Resources[StatusPage] {
			return expected(fmt.Sprintf("the status_page_id %q", own.Resources[StatusPage]),
				"%q in incident %s", incident.GetStatusPageId(), incident.GetId())
		}
	}
	return nil
}
