package conformance

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

// Bounds of what is written.
const (
	maxTitle   = 255
	maxMessage = 10_000
	maxKey     = 255
)

// unknownValue is one that no enum has.
const unknownValue = 99

// createRefusals are what CreateIncident refuses.
func createRefusals() []Check {
	type change = func(r *incidentv1.CreateIncidentRequest)
	refusesChanges := func(rule, field, sentence string, changes func(s *subject) map[string]change, needs ...Thing) Check {
		return Check{
			Name: createIncident + "/" + rule, Sentence: sentence, Writes: true, Needs: needs,
			look: refuses(createIncident, field, func(s *subject, own Team) (list []refusal) {
				for what, change := range changes(s) {
					r := s.newIncident(own.ID, "to be refused")
					change(r)
					list = append(list, refusal{what, r})
				}
				return list
			}),
		}
	}
	return []Check{
		refusesChanges("title", "title", "INVALID_ARGUMENT naming `title`, which has 1 to 255 characters.",
			func(*subject) map[string]change {
				return map[string]change{
					"no title":                  func(r *incidentv1.CreateIncidentRequest) { r.Title = "" },
					"a title of 256 characters": func(r *incidentv1.CreateIncidentRequest) { r.Title = strings.Repeat("x", maxTitle+1) },
				}
			}),
		refusesChanges("status", "status", "INVALID_ARGUMENT naming `status` when it is not set or unknown.",
			func(*subject) map[string]change {
				return map[string]change{
					"no status":         func(r *incidentv1.CreateIncidentRequest) { r.Status = 0 },
					"an unknown status": func(r *incidentv1.CreateIncidentRequest) { r.Status = unknownValue },
				}
			}),
		refusesChanges("impact", "impact", "INVALID_ARGUMENT naming `impact` when it is not set or unknown.",
			func(*subject) map[string]change {
				return map[string]change{
					"no impact":         func(r *incidentv1.CreateIncidentRequest) { r.Impact = 0 },
					"an unknown impact": func(r *incidentv1.CreateIncidentRequest) { r.Impact = unknownValue },
				}
			}),
		refusesChanges("message", "message", "INVALID_ARGUMENT naming `message`, which has 1 to 10,000 characters.",
			func(*subject) map[string]change {
				return map[string]change{
					"no message":                     func(r *incidentv1.CreateIncidentRequest) { r.Message = "" },
					"a message of 10,001 characters": func(r *incidentv1.CreateIncidentRequest) { r.Message = strings.Repeat("x", maxMessage+1) },
				}
			}),
		refusesChanges("idempotency-key", "idempotency_key",
			"INVALID_ARGUMENT naming `idempotency_key`, which has 1 to 255 visible ASCII characters, or none.",
			func(*subject) map[string]change {
				return map[string]change{
					"a key with a blank":      func(r *incidentv1.CreateIncidentRequest) { r.IdempotencyKey = "a key" },
					"a key with an umlaut":    func(r *incidentv1.CreateIncidentRequest) { r.IdempotencyKey = "schlüssel" },
					"a key of 256 characters": func(r *incidentv1.CreateIncidentRequest) { r.IdempotencyKey = strings.Repeat("k", maxKey+1) },
				}
			}),
		refusesChanges("unknown-page", "status_page_id", "INVALID_ARGUMENT naming `status_page_id` when the team has no such page.",
			func(*subject) map[string]change {
				return map[string]change{
					"an unknown page": func(r *incidentv1.CreateIncidentRequest) { r.StatusPageId = proto.String(uuid.NewString()) },
				}
			}),
		refusesChanges("foreign-page", "status_page_id", "INVALID_ARGUMENT naming `status_page_id` when the page is another team's.",
			func(s *subject) map[string]change {
				return map[string]change{"another team's page": func(r *incidentv1.CreateIncidentRequest) {
					r.StatusPageId = proto.String(s.teams[1].Things[StatusPage])
				}}
			}, StatusPage),
		refusesChanges("unknown-component", "component_ids", "INVALID_ARGUMENT naming `component_ids` when the team does not have one.",
			func(*subject) map[string]change {
				return map[string]change{
					"an unknown component": func(r *incidentv1.CreateIncidentRequest) { r.ComponentIds = []string{uuid.NewString()} },
				}
			}),
		refusesChanges("foreign-component", "component_ids", "INVALID_ARGUMENT naming `component_ids` when one is another team's.",
			func(s *subject) map[string]change {
				return map[string]change{"another team's component": func(r *incidentv1.CreateIncidentRequest) {
					r.ComponentIds = []string{s.teams[1].Things[Component]}
				}}
			}, Component),
		refusesChanges("many-components", "component_ids", "`component_ids` are at most 100.",
			func(*subject) map[string]change {
				return map[string]change{"101 components": func(r *incidentv1.CreateIncidentRequest) {
					for range largePage + 1 {
						r.ComponentIds = append(r.ComponentIds, uuid.NewString())
					}
				}}
			}),
		{
			Name: createIncident + "/component-elsewhere", Writes: true, Needs: []Thing{StatusPage}, look: componentIsOnThePage,
			Sentence: "INVALID_ARGUMENT naming `component_ids` when one is not on the page given.",
		},
		{
			Name: createIncident + "/all-violations", Writes: true, look: allViolationsComeTogether,
			Sentence: "INVALID_ARGUMENT carries a violation for each field in trouble.",
		},
	}
}

// componentIsOnThePage looks for a component on another page of the team.
func componentIsOnThePage(ctx context.Context, s *subject) error {
	own := s.teams[0]
	pages, err := s.incident.ListStatusPages(ctx, &incidentv1.ListStatusPagesRequest{TeamId: own.ID})
	if err != nil {
		return err
	}
	for _, page := range pages.GetStatusPages() {
		if page.GetId() == own.Things[StatusPage] {
			continue
		}
		other, err := s.incident.GetStatusPage(ctx, &incidentv1.GetStatusPageRequest{TeamId: own.ID, StatusPageId: page.GetId()})
		if err != nil {
			return err
		}
		for _, component := range other.GetComponents() {
			r := s.newIncident(own.ID, "to be refused")
			r.StatusPageId, r.ComponentIds = proto.String(own.Things[StatusPage]), []string{component.GetId()}
			_, err := s.incident.CreateIncident(ctx, r)
			return names(err, fmt.Sprintf("the component %s of the page %s", component.GetId(), page.GetId()), "component_ids")
		}
	}
	return skip("team %s has no component on another page", own.ID)
}

func allViolationsComeTogether(ctx context.Context, s *subject) error {
	_, err := s.incident.CreateIncident(ctx, &incidentv1.CreateIncidentRequest{TeamId: s.teams[0].ID, Actor: s.actor})
	return names(err, "a request that has nothing", "title", "status", "impact", "message")
}
