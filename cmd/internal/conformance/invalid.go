package conformance

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// Bounds of the fields of writes.
const (
	maxTitle   = 255
	maxMessage = 10_000
	maxKey     = 255
)

// unknownValue is a number that no enum has.
const unknownValue = 99

// An incidentChange makes a valid request invalid.
type incidentChange struct {
	what   string
	change func(s *subject, r *incidentv1.CreateIncidentRequest)
}

// refusesIncident returns a check that CreateIncident answers each change with INVALID_ARGUMENT naming the field.
func refusesIncident(rule, field, sentence string, changes ...incidentChange) Check {
	return Check{
		Name: createIncident + "/" + rule, Sentence: "INVALID_ARGUMENT naming `" + field + "`" + sentence, Writes: true,
		run: refuses(createIncident, field, func(s *subject, own Team) (list []invalidRequest) {
			for _, c := range changes {
				r := s.newIncident(own.ID, "to be refused")
				c.change(s, r)
				list = append(list, invalidRequest{c.what, r})
			}
			return list
		}),
	}
}

// withNeeds adds resources that the fixtures have to name.
func (c Check) withNeeds(resources ...Kind) Check {
	c.Needs = append(c.Needs, resources...)
	return c
}

// invalidCreateChecks returns checks with invalid requests of CreateIncident.
func invalidCreateChecks() []Check {
	return append(invalidReferenceChecks(),
		refusesIncident("title", "title", ", which has 1 to 255 characters.",
			incidentChange{"no title", func(_ *subject, r *incidentv1.CreateIncidentRequest) { r.Title = "" }},
			incidentChange{"a title of 256 characters", func(_ *subject, r *incidentv1.CreateIncidentRequest) {
				r.Title = strings.Repeat("x", maxTitle+1)
			}}),
		refusesIncident("status", "status", " if it is not set or unknown.",
			incidentChange{"no status", func(_ *subject, r *incidentv1.CreateIncidentRequest) { r.Status = 0 }},
			incidentChange{"an unknown status", func(_ *subject, r *incidentv1.CreateIncidentRequest) { r.Status = unknownValue }}),
		refusesIncident("impact", "impact", " if it is not set or unknown.",
			incidentChange{"no impact", func(_ *subject, r *incidentv1.CreateIncidentRequest) { r.Impact = 0 }},
			incidentChange{"an unknown impact", func(_ *subject, r *incidentv1.CreateIncidentRequest) { r.Impact = unknownValue }}),
		refusesIncident("message", "message", ", which has 1 to 10,000 characters.",
			incidentChange{"no message", func(_ *subject, r *incidentv1.CreateIncidentRequest) { r.Message = "" }},
			incidentChange{"a message of 10,001 characters", func(_ *subject, r *incidentv1.CreateIncidentRequest) {
				r.Message = strings.Repeat("x", maxMessage+1)
			}}),
		refusesIncident("idempotency-key", "idempotency_key", ", which is empty or has 1 to 255 visible ASCII characters.",
			incidentChange{"a key with a space", func(_ *subject, r *incidentv1.CreateIncidentRequest) { r.IdempotencyKey = "a key" }},
			incidentChange{"a key with an umlaut", func(_ *subject, r *incidentv1.CreateIncidentRequest) { r.IdempotencyKey = "schlüssel" }},
			incidentChange{"a key of 256 characters", func(_ *subject, r *incidentv1.CreateIncidentRequest) {
				r.IdempotencyKey = strings.Repeat("k", maxKey+1)
			}}),
		Check{
			Name: createIncident + "/all-violations", Writes: true, run: allViolationsAreNamed,
			Sentence: "INVALID_ARGUMENT carries a violation for each invalid field.",
		},
	)
}

// invalidReferenceChecks returns checks with pages and components that the request must not name.
func invalidReferenceChecks() []Check {
	return []Check{
		refusesIncident("unknown-page", "status_page_id", " if the team has no such page.",
			incidentChange{"an unknown page", func(_ *subject, r *incidentv1.CreateIncidentRequest) {
				r.StatusPageId = proto.String(uuid.NewString())
			}}),
		refusesIncident("foreign-page", "status_page_id", " if the page belongs to another team.",
			incidentChange{"another team's page", func(s *subject, r *incidentv1.CreateIncidentRequest) {
				r.StatusPageId = proto.String(s.teams[1].Resources[StatusPage])
			}}).withNeeds(StatusPage),
		refusesIncident("unknown-component", "component_ids", " if the team has no such component.",
			incidentChange{"an unknown component", func(_ *subject, r *incidentv1.CreateIncidentRequest) {
				r.ComponentIds = []string{uuid.NewString()}
			}}),
		refusesIncident("foreign-component", "component_ids", " if one belongs to another team.",
			incidentChange{"another team's component", func(s *subject, r *incidentv1.CreateIncidentRequest) {
				r.ComponentIds = []string{s.teams[1].Resources[Component]}
			}}).withNeeds(Component),
		refusesIncident("many-components", "component_ids", " if there are more than 100.",
			incidentChange{"101 components", func(_ *subject, r *incidentv1.CreateIncidentRequest) {
				for range contract.MaxPageSize + 1 {
					r.ComponentIds = append(r.ComponentIds, uuid.NewString())
				}
			}}),
		{
			Name: createIncident + "/component-elsewhere", Writes: true, Needs: []Kind{StatusPage}, run: componentIsOnThePage,
			Sentence: "INVALID_ARGUMENT naming `component_ids` if one is not on the given page.",
		},
	}
}

// componentIsOnThePage uses a component of another page of the team.
func componentIsOnThePage(ctx context.Context, s *subject) error {
	own := s.teams[0]
	pages, err := s.incident.ListStatusPages(ctx, &incidentv1.ListStatusPagesRequest{TeamId: own.ID})
	if err != nil {
		return err
	}
	for _, page := range pages.GetStatusPages() {
		if page.GetId() == own.Resources[StatusPage] {
			continue
		}
		other, err := s.incident.GetStatusPage(ctx, &incidentv1.GetStatusPageRequest{TeamId: own.ID, StatusPageId: page.GetId()})
		if err != nil {
			return err
		}
		for _, component := range other.GetComponents() {
			r := s.newIncident(own.ID, "to be refused")
			r.StatusPageId, r.ComponentIds = proto.String(own.Resources[StatusPage]), []string{component.GetId()}
			_, err := s.incident.CreateIncident(ctx, r)
			return expectViolations(err, fmt.Sprintf("the component %s of the page %s", component.GetId(), page.GetId()), "component_ids")
		}
	}
	return skip("team %s has no component on another page", own.ID)
}

func allViolationsAreNamed(ctx context.Context, s *subject) error {
	_, err := s.incident.CreateIncident(ctx, &incidentv1.CreateIncidentRequest{TeamId: s.teams[0].ID, Actor: s.actor})
	return expectViolations(err, "a request without content", "title", "status", "impact", "message")
}
