//go:build generated

package main

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"time"

	"opsgate/tools/clients/go/ops"
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
func tour(ctx context.Context, client *ops.ClientWithResponses) (*found, error) {
	f := &found{}
	me, err := client.V1MeWithResponse(ctx)
	if err != nil {
		return nil, err
	}
	f.Scopes = len(me.JSON200.Scopes)
	for _, visit := range []func(context.Context, *ops.ClientWithResponses) error{f.fleet, f.monitoring, f.incident, f.lists} {
		if err := visit(ctx, client); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *found) fleet(ctx context.Context, client *ops.ClientWithResponses) error {
	servers, err := client.V1ListServersWithResponse(ctx)
	if err != nil {
		return err
	}
	f.Servers = len(*servers.JSON200)
	groups, err := client.V1ListServerGroupsWithResponse(ctx)
	if err != nil {
		return err
	}
	f.Groups = len(*groups.JSON200)
	database := slices.IndexFunc(*servers.JSON200, func(s ops.Server) bool { return s.Name == "db-primary" })
	server, err := client.V1GetServerWithResponse(ctx, (*servers.JSON200)[database].Id)
	if err != nil {
		return err
	}
	id := server.JSON200.Id
	f.Server = server.JSON200.Name
	lastHour := ops.LASTHOUR
	metrics, err := client.V1GetServerMetricsWithResponse(ctx, id, &ops.V1GetServerMetricsParams{Range: &lastHour})
	if err != nil {
		return err
	}
	points := metrics.JSON200.Points
	f.Recent = time.Since(points[len(points)-1].At) < time.Hour
	scheduled, err := client.V1ListServerScheduledCommandsWithResponse(ctx, id)
	if err != nil {
		return err
	}
	f.ScheduledCommands = len(*scheduled.JSON200)
	for page, size := int32(1), int32(10); ; page++ {
		commands, err := client.V1ListServerCommandsWithResponse(ctx, id, &ops.V1ListServerCommandsParams{Page: &page, PageSize: &size})
		if err != nil {
			return err
		}
		f.Commands += len(commands.JSON200.Items)
		if page*size >= commands.JSON200.Total {
			return nil
		}
	}
}

func (f *found) monitoring(ctx context.Context, client *ops.ClientWithResponses) error {
	monitors, err := client.V1ListMonitorsWithResponse(ctx)
	if err != nil {
		return err
	}
	f.Monitors = len(*monitors.JSON200)
	anHourAgo := time.Now().Add(-time.Hour)
	checks, err := client.V1ListMonitorChecksWithResponse(ctx, (*monitors.JSON200)[0].Id, &ops.V1ListMonitorChecksParams{Since: &anHourAgo})
	if err != nil {
		return err
	}
	f.Recent = f.Recent && (*checks.JSON200)[0].CheckedAt.After(anHourAgo)
	pages, err := client.V1ListStatusPagesWithResponse(ctx)
	if err != nil {
		return err
	}
	f.Pages = len(*pages.JSON200)
	page, err := client.V1GetStatusPageWithResponse(ctx, (*pages.JSON200)[0].Id)
	if err != nil {
		return err
	}
	f.Components = len(page.JSON200.Components)
	incidents, err := client.V1ListStatusPageIncidentsWithResponse(ctx, page.JSON200.Id)
	if err != nil {
		return err
	}
	f.PageIncidents = len(*incidents.JSON200)
	return nil
}

// incident creates an incident, repeats the request, resolves the incident and reads it.
func (f *found) incident(ctx context.Context, client *ops.ClientWithResponses) error {
	key, body := rand.Text(), ops.NewIncident{
		Title: "Deployment failed", Status: ops.Investigating, Impact: ops.Minor, Message: "The deployment of the Go client failed.",
	}
	created, err := client.V1CreateIncidentWithResponse(ctx, &ops.V1CreateIncidentParams{IdempotencyKey: &key}, body)
	if err != nil {
		return err
	}
	again, err := client.V1CreateIncidentWithResponse(ctx, &ops.V1CreateIncidentParams{IdempotencyKey: &key}, body)
	if err != nil {
		return err
	}
	id := created.JSON200.Id
	f.Replayed = again.JSON200.Id == id && again.HTTPResponse.Header.Get("Idempotent-Replayed") == "true"
	key, quiet := rand.Text(), false
	_, err = client.V1AddIncidentUpdateWithResponse(ctx, id, &ops.V1AddIncidentUpdateParams{IdempotencyKey: &key},
		ops.NewIncidentUpdate{Status: ops.Resolved, Message: "The deployment succeeded.", NotifySubscribers: &quiet})
	if err != nil {
		return err
	}
	incident, err := client.V1GetIncidentWithResponse(ctx, id)
	if err != nil {
		return err
	}
	f.Updates = len(incident.JSON200.Updates)
	resolvedAt := incident.JSON200.ResolvedAt
	f.Resolved = incident.JSON200.Status == ops.Resolved && resolvedAt != nil && !resolvedAt.Before(incident.JSON200.CreatedAt)
	return nil
}

// lists reads all incidents and all audit entries about incidents.
func (f *found) lists(ctx context.Context, client *ops.ClientWithResponses) error {
	incidents, err := all(func(cursor *string) ([]ops.Incident, *string, http.Header, error) {
		page, err := client.V1ListIncidentsWithResponse(ctx, &ops.V1ListIncidentsParams{Cursor: cursor})
		if err != nil {
			return nil, nil, nil, err
		}
		return page.JSON200.Items, page.JSON200.NextCursor, page.HTTPResponse.Header, nil
	})
	if err != nil {
		return err
	}
	ofIncidents := "incident."
	entries, err := all(func(cursor *string) ([]ops.AuditEntry, *string, http.Header, error) {
		page, err := client.V1ListAuditWithResponse(ctx, &ops.V1ListAuditParams{Action: &ofIncidents, Cursor: cursor})
		if err != nil {
			return nil, nil, nil, err
		}
		return page.JSON200.Items, page.JSON200.NextCursor, page.HTTPResponse.Header, nil
	})
	f.Incidents, f.AuditEntries = len(incidents), len(entries)
	return err
}

// all reads all pages. A cursor that the API ignores restarts the list at its first page.
func all[T any](next func(cursor *string) ([]T, *string, http.Header, error)) (list []T, err error) {
	var cursor *string
	for {
		items, following, header, err := next(cursor)
		if err != nil {
			return nil, err
		}
		if cursor != nil && header.Get("Cursor-Status") == "ignored" {
			list = nil
		}
		list = append(list, items...)
		if following == nil {
			return list, nil
		}
		cursor = following
	}
}
