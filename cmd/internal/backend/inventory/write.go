package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/webhook"
)

// save inserts a new row, or updates it with the same values.
func save[I, U any](
	ctx context.Context, c Change, insert func(context.Context, I) error, row I, update func(context.Context, U) error,
	changed U,
) error {
	if c.created() {
		return insert(ctx, row)
	}
	return update(ctx, changed)
}

func (p *plan) writeTeam(ctx context.Context, q *query.Queries, t *Team, c Change) error {
	row := query.InsertTeamParams{ID: t.ID, Name: t.Name, Plan: t.Plan,
		CreatedAt: cmp.Or(t.CreatedAt, p.Clock()).UnixNano(), LimitClass: t.LimitClass}
	return save(ctx, c, q.InsertTeam, row, q.UpdateTeam, query.UpdateTeamParams(row))
}

func (t *team) writeGroup(ctx context.Context, q *query.Queries, g *Group, c Change) error {
	row := query.InsertServerGroupParams{ID: g.ID, TeamID: t.ID, Name: g.Name, Color: g.Color, Position: int64(g.Position)}
	return save(ctx, c, q.InsertServerGroup, row, q.UpdateServerGroup, query.UpdateServerGroupParams(row))
}

func (t *team) writeServer(ctx context.Context, q *query.Queries, s *Server, c Change) error {
	row := query.InsertServerParams{
		ID: s.ID, TeamID: t.ID, GroupID: optional(t.groups[s.Group]), Name: s.Name, Host: s.Host, Os: s.OS,
		Tags:       tagsText(s.Tags),
		LastSeenAt: stored(s.LastSeenAt), CreatedAt: cmp.Or(s.CreatedAt, t.Clock()).UnixNano(),
	}
	return save(ctx, c, q.InsertServer, row, q.UpdateServer, query.UpdateServerParams(row))
}

func (t *team) writeScheduled(ctx context.Context, q *query.Queries, s *Scheduled, c Change) error {
	row := query.InsertScheduledCommandParams{
		ID: s.ID, TeamID: t.ID, ServerID: c.parent, Name: s.Name, Command: s.Command, Cron: s.Cron, Enabled: !s.Disabled,
		LastRunAt: stored(s.LastRunAt), ConsecutiveFailures: s.Failures,
	}
	if row.LastRunAt != nil {
		row.LastExitCode = &s.LastExitCode
	}
	return save(ctx, c, q.InsertScheduledCommand, row, q.UpdateScheduledCommand, query.UpdateScheduledCommandParams(row))
}

func (t *team) writeMonitor(ctx context.Context, q *query.Queries, m *Monitor, c Change) error {
	row := query.InsertMonitorParams{
		ID: m.ID, TeamID: t.ID, Name: m.Name, Type: m.Type, Target: m.Target, Status: cmp.Or(m.Status, "up"),
		Enabled:         !m.Disabled,
		IntervalSeconds: m.Interval, LastCheckAt: stored(m.LastCheckAt), LastStatusChangeAt: stored(m.LastChangeAt),
		OpensIncidents: m.OpensIncidents,
	}
	return save(ctx, c, q.InsertMonitor, row, q.UpdateMonitor, query.UpdateMonitorParams(row))
}

func (t *team) writePage(ctx context.Context, q *query.Queries, p *Page, c Change) error {
	row := query.InsertStatusPageParams{
		ID: p.ID, TeamID: t.ID, Name: p.Name, UniqueHostname: p.Hostname, Slug: p.Slug, Visibility: p.Visibility,
		PrimaryColor: p.Color,
		Description:  optional(p.Description), Suspended: p.Suspended, CreatedAt: cmp.Or(p.CreatedAt, t.Clock()).UnixNano(),
	}
	return save(ctx, c, q.InsertStatusPage, row, q.UpdateStatusPage, query.UpdateStatusPageParams(row))
}

func (t *team) writeComponent(ctx context.Context, q *query.Queries, n *Component, c Change) error {
	row := query.InsertComponentParams{
		ID: n.ID, TeamID: t.ID, StatusPageID: c.parent, MonitorID: optional(t.monitors[n.Monitor]), Name: n.Name,
		GroupName: optional(n.Group), Position: int64(n.Position),
		Status: cmp.Or(n.Status, "operational"), // not used while it has a monitor
	}
	return save(ctx, c, q.InsertComponent, row, q.UpdateComponent, query.UpdateComponentParams(row))
}

func (t *team) writeSubscriber(ctx context.Context, q *query.Queries, s *Subscriber, c Change) error {
	added, err := t.Backend.InsertSubscriber(ctx, q, query.StatusPage{ID: c.parent, TeamID: t.ID}, s.input(c.parent),
		*t.Actor)
	if err == nil && added.Secret != "" {
		t.Secrets = append(t.Secrets, added)
	}
	return err
}

// stored returns a time as it is stored, or nil for the zero time.
func stored(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	return new(at.UnixNano())
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
