//go:build generated

package main

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"slices"
	"time"

	"opsgate/clients/go/client"
	"opsgate/clients/go/ops"
)

// found is what a tour found.
type found struct {
	Scopes            int    `json:"scopes"`
	Servers           int    `json:"servers"`
	Server            string `json:"server"`
	Groups            int    `json:"groups"`
	ScheduledCommands int    `json:"scheduledCommands"`
	Commands          int    `json:"commands"`
	Monitors          int    `json:"monitors"`
	Pages             int    `json:"pages"`
	Components        int    `json:"components"`
	PageIncidents     int    `json:"pageIncidents"`
	Incidents         int    `json:"incidents"`
	AuditEntries      int    `json:"auditEntries"`
	Updates           int    `json:"updates"`
	Replayed          bool   `json:"replayed"` // the repeated request returned the first incident
	Resolved          bool   `json:"resolved"` // after it was created
	Recent            bool   `json:"recent"`   // the last metrics and check are of the last hour
}

// tour calls each kind of operation, and reads all pages of all lists.
func tour(ctx context.Context) any {
	f, client := &found{}, newClient(os.Getenv("OPSCTL_TOKEN"), &client.Retrier{})
	me := must(client.V1MeWithResponse(ctx))
	f.Scopes = len(me.JSON200.Scopes)
	f.fleet(ctx, client)
	f.monitoring(ctx, client)
	f.incident(ctx, client)
	f.lists(ctx, client)
	return f
}

func (f *found) fleet(ctx context.Context, client *ops.ClientWithResponses) {
	servers := must(client.V1ListServersWithResponse(ctx))
	f.Servers = len(*servers.JSON200)
	groups := must(client.V1ListServerGroupsWithResponse(ctx))
	f.Groups = len(*groups.JSON200)
	database := slices.IndexFunc(*servers.JSON200, func(s ops.Server) bool { return s.Name == "db-primary" })
	server := must(client.V1GetServerWithResponse(ctx, (*servers.JSON200)[database].Id))
	id := server.JSON200.Id
	f.Server = server.JSON200.Name
	lastHour := ops.LASTHOUR
	metrics := must(client.V1GetServerMetricsWithResponse(ctx, id, &ops.V1GetServerMetricsParams{Range: &lastHour}))
	points := metrics.JSON200.Points
	f.Recent = time.Since(points[len(points)-1].At) < time.Hour
	scheduled := must(client.V1ListServerScheduledCommandsWithResponse(ctx, id))
	f.ScheduledCommands = len(*scheduled.JSON200)
	for page, size := int32(1), int32(10); ; page++ {
		commands := must(client.V1ListServerCommandsWithResponse(ctx, id,
			&ops.V1ListServerCommandsParams{Page: &page, PageSize: &size}))
		f.Commands += len(commands.JSON200.Items)
		if page*size >= commands.JSON200.Total {
			return
		}
	}
}

func (f *found) monitoring(ctx context.Context, client *ops.ClientWithResponses) {
	monitors := must(client.V1ListMonitorsWithResponse(ctx))
	f.Monitors = len(*monitors.JSON200)
	anHourAgo := time.Now().Add(-time.Hour)
	checks := must(client.V1ListMonitorChecksWithResponse(ctx, (*monitors.JSON200)[0].Id,
		&ops.V1ListMonitorChecksParams{Since: &anHourAgo}))
	f.Recent = f.Recent && (*checks.JSON200)[0].CheckedAt.After(anHourAgo)
	pages := must(client.V1ListStatusPagesWithResponse(ctx))
	f.Pages = len(*pages.JSON200)
	page := must(client.V1GetStatusPageWithResponse(ctx, (*pages.JSON200)[0].Id))
	f.Components = len(page.JSON200.Components)
	incidents := must(client.V1ListStatusPageIncidentsWithResponse(ctx, page.JSON200.Id))
	f.PageIncidents = len(*incidents.JSON200)
}

// incident creates an incident, repeats the request, resolves the incident and reads it.
func (f *found) incident(ctx context.Context, client *ops.ClientWithResponses) {
	key, body := rand.Text(), ops.IncidentInput{
		Title: "Deployment failed", Status: ops.Investigating, Impact: ops.Minor,
		Message: "The deployment of the Go client failed.",
	}
	created := must(client.V1CreateIncidentWithResponse(ctx, &ops.V1CreateIncidentParams{IdempotencyKey: &key}, body))
	again := must(client.V1CreateIncidentWithResponse(ctx, &ops.V1CreateIncidentParams{IdempotencyKey: &key}, body))
	id := created.JSON200.Id
	f.Replayed = again.JSON200.Id == id && again.HTTPResponse.Header.Get("Idempotent-Replayed") == "true"
	key, quiet := rand.Text(), false
	must(client.V1AddIncidentUpdateWithResponse(ctx, id, &ops.V1AddIncidentUpdateParams{IdempotencyKey: &key},
		ops.IncidentUpdateInput{Status: ops.Resolved, Message: "The deployment succeeded.", NotifySubscribers: &quiet}))
	incident := must(client.V1GetIncidentWithResponse(ctx, id))
	f.Updates = len(incident.JSON200.Updates)
	resolvedAt := incident.JSON200.ResolvedAt
	f.Resolved = incident.JSON200.Status == ops.Resolved && resolvedAt != nil &&
		!resolvedAt.Before(incident.JSON200.CreatedAt)
}

// lists reads all incidents and all audit entries about incidents.
func (f *found) lists(ctx context.Context, client *ops.ClientWithResponses) {
	incidents := all(func(cursor *string) ([]ops.Incident, *string, http.Header) {
		page := must(client.V1ListIncidentsWithResponse(ctx, &ops.V1ListIncidentsParams{Cursor: cursor}))
		return page.JSON200.Items, page.JSON200.NextCursor, page.HTTPResponse.Header
	})
	ofIncidents := "incident."
	entries := all(func(cursor *string) ([]ops.AuditEntry, *string, http.Header) {
		page := must(client.V1ListAuditWithResponse(ctx, &ops.V1ListAuditParams{Action: &ofIncidents, Cursor: cursor}))
		return page.JSON200.Items, page.JSON200.NextCursor, page.HTTPResponse.Header
	})
	f.Incidents, f.AuditEntries = len(incidents), len(entries)
}

// all reads all pages. A cursor that the API ignores restarts the list at its first page.
func all[T any](next func(cursor *string) ([]T, *string, http.Header)) (list []T) {
	var cursor *string
	for {
		items, following, header := next(cursor)
		if cursor != nil && header.Get("Cursor-Status") == "ignored" {
			list = nil
		}
		list = append(list, items...)
		if following == nil {
			return list
		}
		cursor = following
	}
}
