package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/webhook"
)

// save inserts a new row, or updates it with the same values.
func save[I, U any](
	ctx context.Context, created bool, insert func(context.Context, I) error, row I, update func(context.Context, U) error, changed U,
) error {
	if created {
		return insert(ctx, row)
	}
	return update(ctx, changed)
}

func (p *plan) writeTeam(t *Team, created bool) writer {
	return func(ctx context.Context, q *query.Queries) error {
		row := query.InsertTeamParams{ID: t.ID, Name: t.Name, Plan: t.Plan, CreatedAt: *p.stored(t.CreatedAt, true)}
		return save(ctx, created, q.InsertTeam, row, q.UpdateTeam, query.UpdateTeamParams(row))
	}
}

func (t *team) writeGroup(g *Group, created bool) writer {
	return func(ctx context.Context, q *query.Queries) error {
		row := query.InsertServerGroupParams{ID: g.ID, TeamID: t.ID, Name: g.Name, Color: g.Color, Position: int64(g.Position)}
		return save(ctx, created, q.InsertServerGroup, row, q.UpdateServerGroup, query.UpdateServerGroupParams(row))
	}
}

func (t *team) writeServer(s *Server, created bool) writer {
	group := t.reference("server "+s.Name, "group", s.Group, t.groups)
	return func(ctx context.Context, q *query.Queries) error {
		row := query.InsertServerParams{
			ID: s.ID, TeamID: t.ID, GroupID: group, Name: s.Name, Host: s.Host, Os: s.OS, Tags: tagsText(s.Tags),
			LastSeenAt: t.stored(s.LastSeenAt, false), CreatedAt: *t.stored(s.CreatedAt, true),
		}
		return save(ctx, created, q.InsertServer, row, q.UpdateServer, query.UpdateServerParams(row))
	}
}

func (t *team) writeScheduled(s Server, c *Scheduled, created bool) writer {
	return func(ctx context.Context, q *query.Queries) error {
		row := query.InsertScheduledCommandParams{
			ID: c.ID, TeamID: t.ID, ServerID: s.ID, Name: c.Name, Command: c.Command, Cron: c.Cron, Enabled: !c.Disabled,
			LastRunAt: t.stored(c.LastRunAt, false), ConsecutiveFailures: c.Failures,
		}
		if row.LastRunAt != nil {
			row.LastExitCode = &c.LastExitCode
		}
		return save(ctx, created, q.InsertScheduledCommand, row, q.UpdateScheduledCommand, query.UpdateScheduledCommandParams(row))
	}
}

func (t *team) writeMonitor(m *Monitor, created bool) writer {
	return func(ctx context.Context, q *query.Queries) error {
		row := query.InsertMonitorParams{
			ID: m.ID, TeamID: t.ID, Name: m.Name, Type: m.Type, Target: m.Target, Status: cmp.Or(m.Status, "up"), Enabled: !m.Disabled,
			IntervalSeconds: m.Interval, LastCheckAt: t.stored(m.LastCheckAt, false), LastStatusChangeAt: t.stored(m.LastChangeAt, false),
			OpensIncidents: m.OpensIncidents,
		}
		return save(ctx, created, q.InsertMonitor, row, q.UpdateMonitor, query.UpdateMonitorParams(row))
	}
}

func (t *team) writePage(p *Page, created bool) writer {
	return func(ctx context.Context, q *query.Queries) error {
		row := query.InsertStatusPageParams{
			ID: p.ID, TeamID: t.ID, Name: p.Name, UniqueHostname: p.Hostname, Slug: p.Slug, Visibility: p.Visibility, PrimaryColor: p.Color,
			Description: optional(p.Description), Suspended: p.Suspended, CreatedAt: *t.stored(p.CreatedAt, true),
		}
		return save(ctx, created, q.InsertStatusPage, row, q.UpdateStatusPage, query.UpdateStatusPageParams(row))
	}
}

func (t *team) writeComponent(p Page, c *Component, created bool) writer {
	monitor := t.reference("component "+c.Name, "monitor", c.Monitor, t.monitors)
	return func(ctx context.Context, q *query.Queries) error {
		row := query.InsertComponentParams{
			ID: c.ID, TeamID: t.ID, StatusPageID: p.ID, MonitorID: monitor, Name: c.Name, GroupName: optional(c.Group),
			Position: int64(c.Position), Status: cmp.Or(c.Status, "operational"), // not used while it has a monitor
		}
		return save(ctx, created, q.InsertComponent, row, q.UpdateComponent, query.UpdateComponentParams(row))
	}
}

func (t *team) writeSubscriber(p Page, s Subscriber) writer {
	return func(ctx context.Context, q *query.Queries) error {
		added, err := t.Backend.InsertSubscriber(ctx, q, query.StatusPage{ID: p.ID, TeamID: t.ID}, s.input(p.ID), *t.Actor)
		if err == nil && added.Secret != "" {
			t.Secrets = append(t.Secrets, Secret{SubscriberID: added.ID, Text: added.Secret})
		}
		return err
	}
}

// reference returns the id of a row that another one names, or nil for "".
func (t *team) reference(from, kind, name string, ids map[string]string) *string {
	if name == "" {
		return nil
	}
	id, exists := ids[name]
	if !exists {
		t.problems = append(t.problems, fmt.Errorf("%s of team %s: there is no %s %q", from, t.Name, kind, name))
	}
	return &id
}

// stored returns a time as it is stored. The zero time is nil, or the present if a time is required.
func (p *plan) stored(at time.Time, required bool) *int64 {
	if at.IsZero() && required {
		at = p.Clock()
	}
	nanoseconds := at.UnixNano()
	if at.IsZero() {
		return nil
	}
	return &nanoseconds
}

// optional returns nil for "".
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// tagsText returns tags as they are stored.
func tagsText(tags []string) string {
	text, _ := json.Marshal(append([]string{}, tags...)) // a list of texts has no error
	return string(text)
}

// shown returns the address without what may be secret.
func (s Subscriber) shown() string {
	if s.Webhook != "" {
		return webhook.Shown(s.Webhook)
	}
	return s.Email
}

func (s Subscriber) sameAddress(other Subscriber) bool {
	return s.Email == other.Email && s.Webhook == other.Webhook
}
