package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/store/query"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

const (
	// lookInterval is the interval at which the people on call look for new outages.
	lookInterval = time.Minute
	// reactionTime is the time before the first person responds to the incident of an outage.
	reactionTime = 2 * time.Minute
	// keptOpen is the number of open incidents below which people resolve none.
	keptOpen = 4
)

// A page is a status page on which people create incidents.
type page struct {
	id         string
	components []string
}

// addResponders adds the people who respond to incidents.
func (t *team) addResponders(ctx context.Context, q *query.Queries, start time.Time) error {
	pages, err := q.ListStatusPages(ctx, t.id)
	if err != nil {
		return fmt.Errorf("list the status pages: %w", err)
	}
	components, err := q.ListComponents(ctx, t.id)
	if err != nil {
		return fmt.Errorf("list the components: %w", err)
	}
	for _, row := range pages {
		if row.Suspended {
			continue
		}
		p := page{id: row.ID}
		for _, c := range components {
			if c.StatusPageID == row.ID {
				p.components = append(p.components, c.ID)
			}
		}
		t.pages = append(t.pages, p)
	}
	onCall := t.random("on call")
	t.schedule(start.Add(lookInterval), func(ctx context.Context, at time.Time) (time.Time, error) {
		return at.Add(lookInterval), t.identify(ctx, onCall, at)
	})
	if len(t.pages) == 0 {
		return nil
	}
	others := t.random("other incidents")
	pause := func() time.Duration {
		return demo.Between(others, time.Hour, 2*time.Hour) / time.Duration(len(t.pages))
	}
	t.schedule(start.Add(pause()/5), func(ctx context.Context, at time.Time) (time.Time, error) {
		return at.Add(pause()), t.attend(ctx, others)
	})
	return nil
}

// actor returns one of the team's people.
func (t *team) actor(r *rand.Rand) *incidentv1.Actor {
	return &incidentv1.Actor{TokenId: demo.Pick(r, demo.People(t.name)), IpAddress: demo.Pick(r, demo.Addresses())}
}

// identify posts updates on outages in progress, each some minutes after its incident opened.
func (t *team) identify(ctx context.Context, r *rand.Rand, at time.Time) error {
	var outages []query.Incident
	err := t.backend.Store().Read(ctx, func(q *query.Queries) (err error) {
		outages, err = q.ListUnidentifiedOutages(ctx, t.id)
		return err
	})
	if err != nil {
		return fmt.Errorf("list the outages: %w", err)
	}
	for _, outage := range outages {
		if at.Sub(time.Unix(0, outage.CreatedAt)) < reactionTime || r.IntN(2) == 0 {
			continue
		}
		if err := t.post(ctx, r, outage.ID, "identified"); err != nil {
			return err
		}
	}
	return nil
}

// post posts an update. Subscribers are not always notified.
func (t *team) post(ctx context.Context, r *rand.Rand, incident, status string) error {
	_, err := t.backend.Incidents().AddIncidentUpdate(ctx, &incidentv1.AddIncidentUpdateRequest{
		TeamId: t.id, IncidentId: incident, Message: demo.Message(r, status), NotifySubscribers: r.IntN(4) > 0, Actor: t.actor(r),
		Status: incidentv1.IncidentStatus(incidentv1.IncidentStatus_value["INCIDENT_STATUS_"+strings.ToUpper(status)]),
	})
	if err != nil {
		return fmt.Errorf("post an update: %w", err)
	}
	return nil
}

// attend moves one of the open incidents of people on by one status, or creates one if there are few.
func (t *team) attend(ctx context.Context, r *rand.Rand) error {
	open, err := t.openIncidents(ctx)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		return t.create(ctx, r)
	}
	incident := demo.Pick(r, open)
	next := map[string]string{"investigating": "identified", "identified": "monitoring", "monitoring": "resolved"}[incident.Status]
	if next == "resolved" && len(open) <= keptOpen {
		return t.create(ctx, r)
	}
	return t.post(ctx, r, incident.ID, next)
}

// openIncidents returns the open incidents of the demo data and those that the simulated people created.
func (t *team) openIncidents(ctx context.Context) (list []query.ListOpenIncidentsWithCreatorRow, err error) {
	err = t.backend.Store().Read(ctx, func(q *query.Queries) (err error) {
		list, err = q.ListOpenIncidentsWithCreator(ctx, t.id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the open incidents: %w", err)
	}
	people := demo.People(t.name)
	return slices.DeleteFunc(list, func(i query.ListOpenIncidentsWithCreatorRow) bool {
		return i.Creator != nil && !slices.Contains(people, *i.Creator)
	}), nil
}

// create creates an incident, mostly on a status page.
func (t *team) create(ctx context.Context, r *rand.Rand) error {
	request := &incidentv1.CreateIncidentRequest{
		TeamId: t.id, Title: demo.Title(r), Status: incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING,
		Message: demo.Message(r, "investigating"),
		Impact:  incidentv1.IncidentImpact(incidentv1.IncidentImpact_value["INCIDENT_IMPACT_"+strings.ToUpper(demo.Pick(r, demo.Impacts()))]),
		Actor:   t.actor(r),
	}
	if p := demo.Pick(r, t.pages); r.IntN(4) > 0 {
		request.StatusPageId = &p.id
		if len(p.components) > 0 {
			request.ComponentIds = []string{demo.Pick(r, p.components)}
		}
	}
	if _, err := t.backend.Incidents().CreateIncident(ctx, request); err != nil {
		return fmt.Errorf("create an incident: %w", err)
	}
	return nil
}
