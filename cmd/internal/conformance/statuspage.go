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
			Name: "incident/ListStatusPages/complete", Needs: []Thing{StatusPage}, run: listsAllPages,
			Sentence: "ListStatusPages returns all status pages of the team.",
		},
		{
			Name: "incident/ListStatusPages/order", Sentence: "Pages are ordered by name and then by id.", run: pagesAreOrdered,
		},
		{
			Name: "incident/GetStatusPage/the-one-asked-for", Needs: []Thing{StatusPage, Component}, run: returnsGivenPage,
			Sentence: "GetStatusPage returns the page with the given id and its components.",
		},
		{
			Name: "incident/GetStatusPage/order", Needs: []Thing{StatusPage}, Sentence: "Components are ordered by position and then by id.",
			run: func(ctx context.Context, s *subject) error {
				answer, err := s.page(ctx, s.teams[0])
				if err != nil {
					return err
				}
				return orderedByPosition(rows(answer.GetComponents(), func(m *incidentv1.StatusPageComponent) row {
					return row{id: m.GetId(), position: m.GetPosition()}
				}))
			},
		},
		{
			Name: "incident/ListStatusPageIncidents/order", Needs: []Thing{StatusPage},
			Sentence: "The incidents of a page are ordered by creation, newest first.",
			run: func(ctx context.Context, s *subject) error {
				answer, err := s.pageIncidents(ctx, s.teams[0])
				if err != nil {
					return err
				}
				return newestFirst(rows(answer.GetIncidents(), incidentRow))
			},
		},
		{
			Name: "incident/ListStatusPageIncidents/of-the-page", Needs: []Thing{StatusPage}, run: listsIncidentsOfThePage,
			Sentence: "ListStatusPageIncidents returns the incidents that are attached to the page, at most 100.",
		},
	}
}

func (s *subject) page(ctx context.Context, own Team) (*incidentv1.GetStatusPageResponse, error) {
	return s.incident.GetStatusPage(ctx, &incidentv1.GetStatusPageRequest{TeamId: own.ID, StatusPageId: own.Things[StatusPage]})
}

func (s *subject) pageIncidents(ctx context.Context, own Team) (*incidentv1.ListStatusPageIncidentsResponse, error) {
	return s.incident.ListStatusPageIncidents(ctx,
		&incidentv1.ListStatusPageIncidentsRequest{TeamId: own.ID, StatusPageId: own.Things[StatusPage]})
}

func listsAllPages(ctx context.Context, s *subject) error {
	return forBothTeams(s, func(own, _ Team) error {
		answer, err := s.incident.ListStatusPages(ctx, &incidentv1.ListStatusPagesRequest{TeamId: own.ID})
		if err != nil {
			return err
		}
		return contains(own, StatusPage, identities(answer))
	})
}

func pagesAreOrdered(ctx context.Context, s *subject) error {
	answer, err := s.incident.ListStatusPages(ctx, &incidentv1.ListStatusPagesRequest{TeamId: s.teams[0].ID})
	if err != nil {
		return err
	}
	return orderedByName(rows(answer.GetStatusPages(), func(m *incidentv1.StatusPage) row {
		return row{id: m.GetId(), name: m.GetName()}
	}))
}

func returnsGivenPage(ctx context.Context, s *subject) error {
	own := s.teams[0]
	answer, err := s.page(ctx, own)
	if err != nil {
		return err
	}
	if err := sameID(own.Things[StatusPage], answer.GetStatusPage().GetId()); err != nil {
		return err
	}
	return contains(own, Component, identities(answer))
}

func listsIncidentsOfThePage(ctx context.Context, s *subject) error {
	own := s.teams[0]
	answer, err := s.pageIncidents(ctx, own)
	if err != nil {
		return err
	}
	if n := len(answer.GetIncidents()); n > contract.MaxPageSize {
		return expected("at most 100 incidents", "%d incidents", n)
	}
	for _, incident := range answer.GetIncidents() {
		if incident.GetStatusPageId() != own.Things[StatusPage] {
			return expected(fmt.Sprintf("the status_page_id %q", own.Things[StatusPage]),
				"%q in incident %s", incident.GetStatusPageId(), incident.GetId())
		}
	}
	return nil
}
