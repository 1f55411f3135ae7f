package service_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// worstOf returns the status of a page, computed from all its components and incidents.
func worstOf(components []string, incidents []query.InsertIncidentParams, now int64) incidentv1.PublicStatus {
	found := map[incidentv1.PublicStatus]bool{}
	for _, status := range components {
		found[incidentv1.PublicStatus(incidentv1.PublicStatus_value["PUBLIC_STATUS_"+strings.ToUpper(status)])] = true
	}
	for _, i := range incidents {
		switch {
		case i.Status == "resolved":
		case i.IsMaintenance && i.StartedAt <= now:
			found[incidentv1.PublicStatus_PUBLIC_STATUS_MAINTENANCE] = true
		case i.IsMaintenance || !i.AffectsPage || i.Impact == "none":
		case i.Impact == "critical":
			found[incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE] = true
		default:
			found[incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED] = true
		}
	}
	for _, status := range []incidentv1.PublicStatus{
		incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE, incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED, incidentv1.PublicStatus_PUBLIC_STATUS_MAINTENANCE,
	} {
		if found[status] {
			return status
		}
	}
	return incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL
}

// The database computes the worst status of a page from any components and incidents.
func TestPageHasTheStatusOfItsWorstComponentOrIncident(t *testing.T) {
	s, own := startTeam(t)
	other := s.addPage(own, "another page of the team")
	now, file := start().UnixNano(), s.file()
	rapid.Check(t, func(rt *rapid.T) {
		page := s.addPage(own, "page")
		incident := rapid.Custom(func(rt *rapid.T) query.InsertIncidentParams {
			i := query.InsertIncidentParams{
				ID: uuid.NewString(), TeamID: own.id, StatusPageID: &page, Title: "Any",
				Status:        rapid.SampledFrom([]string{"investigating", "identified", "monitoring", "resolved"}).Draw(rt, "status"),
				Impact:        rapid.SampledFrom([]string{"none", "minor", "major", "critical"}).Draw(rt, "impact"),
				IsMaintenance: rapid.Bool().Draw(rt, "maintenance"), AffectsPage: rapid.Bool().Draw(rt, "affects"),
				StartedAt: now + rapid.Int64Range(-1, 1).Draw(rt, "started")*int64(time.Hour), CreatedAt: now,
			}
			if i.Status == "resolved" {
				i.ResolvedAt = &now
			}
			return i
		})
		incidents := rapid.SliceOfN(incident, 0, 4).Draw(rt, "incidents")
		statuses := rapid.SampledFrom([]string{"operational", "operational", "degraded", "outage", "maintenance"})
		components := rapid.SliceOfN(statuses, 0, 3).Draw(rt, "components")
		s.insert(func(ctx context.Context, q *query.Queries) error {
			elsewhere := query.InsertIncidentParams{
				ID: uuid.NewString(), TeamID: own.id, StatusPageID: &other, Title: "Elsewhere", Status: "identified", Impact: "critical", AffectsPage: true,
			}
			for i, status := range components {
				err := q.InsertComponent(ctx, query.InsertComponentParams{
					ID: uuid.NewString(), TeamID: own.id, StatusPageID: page, Position: int64(-i), Status: status,
				})
				if err != nil {
					return err
				}
			}
			for _, i := range append(incidents, elsewhere) {
				if err := q.InsertIncident(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
		got, want := s.page(own, page), worstOf(components, incidents, now)
		if overall := got.GetStatusPage().GetOverallStatus(); overall != want {
			rt.Fatalf("%v, want %v", overall, want)
		}
		for _, rows := range []string{"incidents WHERE status_page_id", "components WHERE status_page_id", "status_pages WHERE id"} {
			_, err := file.Exec("DELETE FROM "+rows+" = ?", page) // a team has a bounded number
			testkit.Must(t, err)
		}
	})
}
