package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"opsgate/cmd/internal/backend/store/query"
)

// insertIncidents inserts the team's incidents, newest first. The newest are open.
func (t *teamSeeder) insertIncidents(ctx context.Context) error {
	age := 25 * time.Minute
	for i := range t.incidents {
		r := t.random("incident", strconv.Itoa(i))
		row := t.incident(r, i, age)
		if err := t.q.InsertIncident(ctx, row); err != nil {
			return fmt.Errorf("insert incident %d: %w", i, err)
		}
		if err := t.insertTimeline(ctx, r, row); err != nil {
			return fmt.Errorf("insert the timeline of incident %d: %w", i, err)
		}
		if i%20 != 10 { // sometimes two incidents have the same time of creation
			age += Between(r, time.Hour, 36*time.Hour)
		}
	}
	return nil
}

// incidentID returns the id of the i-th newest incident.
func (t *teamSeeder) incidentID(i int) string { return t.id("incident", strconv.Itoa(i)) }

func (t *teamSeeder) incident(r *rand.Rand, i int, age time.Duration) query.InsertIncidentParams {
	row := query.InsertIncidentParams{
		ID: t.incidentID(i), TeamID: t.ID, StatusPageID: t.pageOfIncident(r), CreatedAt: t.ago(age),
		Title: Pick(r, symptoms()) + " " + Pick(r, scopes()), Impact: Pick(r, impacts()),
		// Detected late: the order by started_at differs from the order by created_at.
		StartedAt: t.ago(age + Between(r, 0, 40*time.Hour)),
		Status:    "resolved",
	}
	if i%11 == 5 {
		row.IsMaintenance, row.Title, row.Impact = true, Pick(r, maintenances()), "none"
		row.StartedAt = t.ago(age - Between(r, 10*time.Minute, 20*time.Minute))
	}
	if open := []string{"investigating", "identified", "monitoring"}; i < 9 {
		row.Status = open[i%len(open)]
		return row
	}
	resolved := min(row.CreatedAt+Between(r, 12*time.Minute, 9*time.Hour).Nanoseconds(), t.ago(time.Minute))
	row.ResolvedAt = &resolved
	return row
}

// pageOfIncident returns the page that an incident is attached to, or nil, according to the shares
// of the pages.
func (t *teamSeeder) pageOfIncident(r *rand.Rand) *string {
	percentile := r.IntN(100)
	for _, p := range t.Pages {
		if percentile < t.shares[p.Name] {
			id := t.id("page", p.Name)
			return &id
		}
		percentile -= t.shares[p.Name]
	}
	return nil
}

// insertTimeline inserts the updates and the affected components of an incident. The last update
// has the incident's status.
func (t *teamSeeder) insertTimeline(ctx context.Context, r *rand.Rand, row query.InsertIncidentParams) error {
	statuses := []string{"investigating", "identified", "monitoring", "resolved"}
	end := t.ago(0)
	if row.ResolvedAt != nil {
		end = *row.ResolvedAt
	}
	at := row.CreatedAt
	for i, status := range statuses {
		if status == "resolved" {
			at = end
		}
		err := t.q.InsertIncidentUpdate(ctx, query.InsertIncidentUpdateParams{
			ID: t.id("update", row.ID+"/"+status), TeamID: row.TeamID, IncidentID: row.ID, Status: status,
			Message: Pick(r, messages(status)), CreatedAt: at,
		})
		if err != nil {
			return err
		}
		if status == row.Status {
			break
		}
		// The remaining steps share the remaining time.
		at += (end - at) / int64(len(statuses)-i)
	}
	return t.insertAffected(ctx, r, row)
}

func (t *teamSeeder) insertAffected(ctx context.Context, r *rand.Rand, row query.InsertIncidentParams) error {
	for _, p := range t.Pages {
		if row.StatusPageID == nil || *row.StatusPageID != t.id("page", p.Name) {
			continue
		}
		return t.q.InsertIncidentComponent(ctx, query.InsertIncidentComponentParams{
			TeamID: row.TeamID, IncidentID: row.ID, ComponentID: t.id("component", p.Name+"/"+Pick(r, p.Components).Name),
		})
	}
	return nil
}

// impacts returns the impacts of incidents, as often as they occur.
func impacts() []string { return []string{"none", "minor", "minor", "major", "critical"} }

func symptoms() []string {
	return []string{
		"Elevated error rate", "Slow responses", "Connection timeouts", "Login failures", "Delayed notifications",
		"Intermittent packet loss", "Missing data", "Failing health checks", "Growing queue", "Stale results",
	}
}

func scopes() []string {
	return []string{
		"on the customer portal", "in the booking API", "for partner webhooks", "on the orders database", "in search",
		"at the Amsterdam edge", "at the Singapore edge", "in the timetable feed", "for invoices", "in mail delivery",
		"on mobile clients", "in exports",
	}
}

func maintenances() []string {
	return []string{
		"Planned upgrade of the orders database", "Kernel updates on the web servers", "Network maintenance in Amsterdam",
		"Certificate rotation", "Storage migration of the search cluster", "Planned failover test",
	}
}

func messages(status string) []string {
	switch status {
	case "investigating":
		return []string{
			"We are looking into reports of errors and will be back within half an hour.",
			"Our monitoring shows a problem. The team on call is on it.",
			"Some requests fail. We are finding out which, and why.",
		}
	case "identified":
		return []string{
			"A deployment an hour ago causes this. We are rolling it back.",
			"One database replica fell behind and served old rows. It has been taken out.",
			"The cause is a full disk on one server. We are making room.",
		}
	case "monitoring":
		return []string{
			"The fix is in place and the error rate is falling. We keep watching.",
			"Traffic has been moved away. Responses are back to normal so far.",
			"All servers answer again. We are watching the queue drain.",
		}
	default:
		return []string{
			"This is over. We are sorry for the trouble.",
			"No errors for an hour; we consider this resolved.",
			"Everything works as it should. A review will follow on our blog.",
		}
	}
}
