package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
)

// Export returns the inventory of all teams, without secrets and tokens. Without state it has nothing that changes by itself.
func Export(ctx context.Context, q *query.Queries, state bool) (text []byte, err error) {
	f, err := load(ctx, q)
	if err != nil {
		return nil, err
	}
	for i := range f.Teams {
		t := &f.Teams[i]
		groups, _ := index(t.Groups)
		monitors, _ := index(t.Monitors)
		t.nameGroups(groups)
		t.nameMonitors(monitors)
	}
	simplify(reflect.ValueOf(&f).Elem(), 0, state)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(f); err != nil {
		return nil, fmt.Errorf("write the inventory: %w", err)
	}
	return out.Bytes(), nil
}

// simplify removes what the file does not need from the row at an index of a list: default positions and, on demand, state.
func simplify(row reflect.Value, index int, state bool) {
	for i := range row.NumField() {
		field, value := row.Type().Field(i), row.Field(i)
		switch {
		case field.Name == "Position" && value.Int() == int64(index+1), field.Tag.Get("state") != "" && !state:
			value.SetZero()
		case isList(field.Type):
			for j := range value.Len() {
				simplify(value.Index(j), j, state)
			}
		}
	}
}

// isList reports whether a field has a list of rows.
func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// load returns the inventory of all rows. Its references are ids, because the names may change.
func load(ctx context.Context, q *query.Queries) (f File, err error) {
	teams, err := q.ListTeams(ctx)
	if err != nil {
		return f, fmt.Errorf("list the teams: %w", err)
	}
	for _, row := range teams {
		t := Team{Head: Head{row.ID, row.Name}, Plan: row.Plan, CreatedAt: service.TimeOf(&row.CreatedAt)}
		for _, step := range []func(context.Context, *query.Queries) error{t.loadFleet, t.loadMonitors, t.loadPages} {
			if err := step(ctx, q); err != nil {
				return f, fmt.Errorf("load the team %s: %w", row.Name, err)
			}
		}
		f.Teams = append(f.Teams, t)
	}
	return f, nil
}

func (t *Team) loadFleet(ctx context.Context, q *query.Queries) error {
	groups, err := q.ListServerGroups(ctx, t.ID)
	if err != nil {
		return fmt.Errorf("list the server groups: %w", err)
	}
	for _, row := range groups {
		t.Groups = append(t.Groups, Group{Head: Head{row.ID, row.Name}, Color: row.Color, Position: int(row.Position)})
	}
	servers, err := q.ListServers(ctx, t.ID)
	if err != nil {
		return fmt.Errorf("list the servers: %w", err)
	}
	for _, row := range servers {
		s := Server{
			Head: Head{row.ID, row.Name}, Host: row.Host, OS: row.Os, Group: valueOf(row.GroupID),
			CreatedAt: service.TimeOf(&row.CreatedAt), LastSeenAt: service.TimeOf(row.LastSeenAt),
		}
		if err := json.Unmarshal([]byte(row.Tags), &s.Tags); err != nil {
			return fmt.Errorf("read the tags of server %s: %w", row.ID, err)
		}
		commands, err := q.ListScheduledCommands(ctx, query.ListScheduledCommandsParams{TeamID: t.ID, ServerID: row.ID})
		if err != nil {
			return fmt.Errorf("list the scheduled commands: %w", err)
		}
		for _, c := range commands {
			s.Scheduled = append(s.Scheduled, Scheduled{
				Head: Head{c.ID, c.Name}, Command: c.Command, Cron: c.Cron, Disabled: !c.Enabled, LastRunAt: service.TimeOf(c.LastRunAt),
				LastExitCode: valueOf(c.LastExitCode), Failures: c.ConsecutiveFailures,
			})
		}
		t.Servers = append(t.Servers, s)
	}
	return nil
}

func (t *Team) loadMonitors(ctx context.Context, q *query.Queries) error {
	rows, err := q.ListMonitors(ctx, t.ID)
	if err != nil {
		return fmt.Errorf("list the monitors: %w", err)
	}
	for _, row := range rows {
		t.Monitors = append(t.Monitors, Monitor{
			Head: Head{row.ID, row.Name}, Type: row.Type, Target: row.Target, Interval: row.IntervalSeconds, Disabled: !row.Enabled,
			OpensIncidents: row.OpensIncidents, Status: row.Status,
			LastCheckAt: service.TimeOf(row.LastCheckAt), LastChangeAt: service.TimeOf(row.LastStatusChangeAt),
		})
	}
	return nil
}

func (t *Team) loadPages(ctx context.Context, q *query.Queries) error {
	pages, err := q.ListStatusPages(ctx, t.ID)
	if err != nil {
		return fmt.Errorf("list the pages: %w", err)
	}
	components, err := q.ListComponents(ctx, t.ID)
	if err != nil {
		return fmt.Errorf("list the components: %w", err)
	}
	for _, row := range pages {
		p := Page{
			Head: Head{row.ID, row.Name}, Hostname: row.UniqueHostname, Slug: row.Slug, Visibility: row.Visibility, Color: row.PrimaryColor,
			Description: valueOf(row.Description), Suspended: row.Suspended, CreatedAt: service.TimeOf(&row.CreatedAt),
		}
		for _, c := range components {
			if c.StatusPageID != row.ID {
				continue
			}
			component := Component{
				Head: Head{c.ID, c.Name}, Group: valueOf(c.GroupName), Monitor: valueOf(c.MonitorID), Position: int(c.Position),
			}
			if c.MonitorID == nil {
				component.Status = c.Status
			}
			p.Components = append(p.Components, component)
		}
		subscribers, err := q.ListSubscribersOfPageAnyTeam(ctx, row.ID)
		if err != nil {
			return fmt.Errorf("list the subscribers: %w", err)
		}
		for _, s := range subscribers {
			p.Subscribers = append(p.Subscribers, subscriber(s))
		}
		t.Pages = append(t.Pages, p)
	}
	return nil
}

func subscriber(row query.Subscriber) Subscriber {
	if row.Channel == service.ChannelEmail {
		return Subscriber{Email: row.Address, Confirmed: row.ConfirmedAt != nil}
	}
	s := Subscriber{Webhook: row.Address}
	s.AllowHTTP = s.input("").Check() != nil // it was created so
	return s
}

// valueOf returns the zero value for nil.
func valueOf[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}
