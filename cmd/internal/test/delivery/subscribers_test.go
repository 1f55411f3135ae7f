package delivery

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// A page is a status page with subscribers.
type page struct {
	data, team, id string
	subscribers    []string          // addresses
	secrets        map[string][]byte // of webhooks
}

// newPage creates a data directory with a page that has n subscribers: half get emails, half webhooks.
func newPage(t *testing.T, to *receivers, n int) *page {
	t.Helper()
	p := &page{data: t.TempDir(), id: uuid.NewString(), secrets: map[string][]byte{}}
	backend, err := service.Open(t.Context(), service.Options{DataDir: p.data})
	testkit.Must(t, err)
	team, err := backend.CreateTeam(t.Context(), "Harbour", service.PlanAI)
	testkit.Must(t, err)
	p.team = team.ID
	testkit.Must(t, backend.Store().Write(t.Context(), func(q *query.Queries) error {
		err := q.InsertStatusPage(t.Context(), query.InsertStatusPageParams{
			ID: p.id, TeamID: p.team, Name: "Harbour", UniqueHostname: "status.harbour.example", Visibility: "public",
			PrimaryColor: "#0a5fbf", CreatedAt: time.Now().UnixNano(),
		})
		for i := 0; i < n && err == nil; i++ {
			err = p.subscribe(t.Context(), q, to, i)
		}
		return err
	}))
	testkit.Must(t, backend.Close())
	return p
}

func (p *page) subscribe(ctx context.Context, q *query.Queries, to *receivers, i int) error {
	row := query.InsertSubscriberParams{
		ID: uuid.NewString(), TeamID: p.team, StatusPageID: p.id, Channel: "email", Address: fmt.Sprintf("subscriber-%d@mail.example", i),
		CreatedAt: time.Now().UnixNano(),
	}
	if i%2 == 1 {
		row.Channel, row.Address, row.Secret = "webhook", to.hookURL(i), []byte(rand.Text())
		p.secrets[row.Address] = row.Secret
	}
	p.subscribers = append(p.subscribers, row.Address)
	return q.InsertSubscriber(ctx, row)
}

// incident returns the request for an incident on the page, with the mark in its first update.
func (p *page) incident(mark string) *incidentv1.CreateIncidentRequest {
	return &incidentv1.CreateIncidentRequest{
		TeamId: p.team, StatusPageId: &p.id, Actor: operator(), Title: "Slow responses", Message: "We are on it: " + mark,
		Status:         incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING,
		Impact:         incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR,
		IdempotencyKey: mark,
	}
}

// update returns the request for an update of the incident with the mark.
func (p *page) update(incident, mark string, notify bool) *incidentv1.AddIncidentUpdateRequest {
	return &incidentv1.AddIncidentUpdateRequest{
		TeamId: p.team, IncidentId: incident, Actor: operator(), Message: "It goes on: " + mark,
		Status: incidentv1.IncidentStatus_INCIDENT_STATUS_MONITORING, NotifySubscribers: notify, IdempotencyKey: mark,
	}
}

func operator() *incidentv1.Actor {
	return &incidentv1.Actor{TokenId: "6f2b8f0e-3f5c-4d1a-9b1e-0a7c5d3e2f10", IpAddress: "192.0.2.7", RequestId: "req-1"}
}

// notifications returns the marks of the page's notifications in their order, without the suppressed ones.
func (p *page) notifications(t *testing.T) (list []string) {
	t.Helper()
	backend, err := service.Open(t.Context(), service.Options{DataDir: p.data})
	testkit.Must(t, err)
	testkit.Must(t, backend.Store().Read(t.Context(), func(q *query.Queries) error {
		rows, err := q.ListNotifications(t.Context(), p.team)
		if err != nil {
			return err
		}
		for _, n := range rows {
			if n.Suppressed {
				continue
			}
			updates, err := q.ListIncidentUpdates(t.Context(), query.ListIncidentUpdatesParams{
				TeamID: p.team, IncidentID: n.IncidentID, MaxUpdates: 100, MaxBytes: 1 << 20,
			})
			if err != nil {
				return err
			}
			for _, u := range updates {
				if u.ID == n.UpdateID {
					list = append(list, marks.FindString(u.Message))
				}
			}
		}
		return nil
	}))
	testkit.Must(t, backend.Close())
	return list
}

// hookURL returns the URL of a receiver. Each has its own host, because a host that is slow delays all its receivers.
func (r *receivers) hookURL(i int) string {
	return fmt.Sprintf("http://127.0.%d.%d:%s/hooks/%d", 1+i/250, 1+i%250, r.httpPort, i)
}
