package conformance

import (
	"context"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

func incidentChecks() []Check {
	return []Check{
		{
			Name: "incident/GetIncident/the-one-asked-for", Needs: []Kind{Incident},
			Sentence: "GetIncident returns the incident with the given id.",
			run: func(ctx context.Context, s *subject) error {
				own := s.teams[0]
				response, err := s.timeline(ctx, own.ID, own.Resources[Incident])
				if err != nil {
					return err
				}
				return sameID(own.Resources[Incident], response.GetIncident().GetId())
			},
		},
		{
			Name: "incident/GetIncident/order", Needs: []Kind{Incident}, Sentence: "The timeline is ordered oldest first.",
			run: func(ctx context.Context, s *subject) error {
				response, err := s.timeline(ctx, s.teams[0].ID, s.teams[0].Resources[Incident])
				if err != nil {
					return err
				}
				return oldestFirst(rows(response.GetUpdates(), func(m *incidentv1.IncidentUpdate) row {
					return row{id: m.GetId(), at: timeOf(m.GetCreatedAt())}
				}))
			},
		},
	}
}

func incidentRow(m *incidentv1.Incident) row { return row{id: m.GetId(), at: timeOf(m.GetCreatedAt())} }

// timeline returns an incident with its updates.
func (s *subject) timeline(ctx context.Context, team, id string) (*incidentv1.GetIncidentResponse, error) {
	return s.incident.GetIncident(ctx, &incidentv1.GetIncidentRequest{TeamId: team, IncidentId: id})
}
