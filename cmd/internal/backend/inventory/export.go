package inventory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
)

// Export returns the inventory of all teams, without secrets and tokens. Without state it has
// nothing that changes by itself.
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
	f.simplify(state)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(f); err != nil {
		return nil, fmt.Errorf("write the inventory: %w", err)
	}
	return out.Bytes(), nil
}

// simplify removes what the file does not need: default positions and, on demand, state.
func (f *File) simplify(state bool) {
	eachRow("", reflect.ValueOf(f).Elem(), func(_ string, index int, row reflect.Value) {
		for field, value := range row.Fields() {
			if field.Name == "Position" && value.Int() == int64(index+1) || field.Tag.Get("state") != "" && !state {
				value.SetZero()
			}
		}
	})
}

// load returns the inventory of all rows. Its references are ids, because the names may change.
func load(ctx context.Context, q *query.Queries) (f File, err error) {
	teams, err := q.ListTeams(ctx)
	l := &loader{ctx, q, err}
	for _, row := range teams {
		f.Teams = append(f.Teams, l.team(row))
	}
	if l.err != nil {
		return f, fmt.Errorf("load the inventory: %w", l.err)
	}
	return f, nil
}

// A loader reads rows in a transaction, and keeps its first error.
type loader struct {
	ctx context.Context
	q   *query.Queries
	err error
}

// list returns the rows of a query as those of an inventory.
func list[A, R, T any](l *loader, rows func(context.Context, A) ([]R, error), of A, convert func(R) T) (list []T) {
	found, err := rows(l.ctx, of)
	l.err = cmp.Or(l.err, err)
	for _, row := range found {
		list = append(list, convert(row))
	}
	return list
}

func (l *loader) team(row query.Team) Team {
	components, err := l.q.ListComponents(l.ctx, row.ID)
	l.err = cmp.Or(l.err, err)
	return Team{
		Head: Head{row.ID, row.Name}, Plan: row.Plan, LimitClass: row.LimitClass, CreatedAt: service.TimeOf(&row.CreatedAt),
		Groups: list(l, l.q.ListServerGroups, row.ID, func(row query.ServerGroup) Group {
			return Group{Head: Head{row.ID, row.Name}, Color: row.Color, Position: int(row.Position)}
		}),
		Servers:  list(l, l.q.ListServers, row.ID, l.server),
		Monitors: list(l, l.q.ListMonitors, row.ID, monitor),
		Pages:    list(l, l.q.ListStatusPages, row.ID, func(row query.StatusPage) Page { return l.page(row, components) }),
	}
}

func (l *loader) server(row query.Server) Server {
	s := Server{
		Head: Head{row.ID, row.Name}, Host: row.Host, OS: row.Os, Group: *cmp.Or(row.GroupID, new("")),
		CreatedAt: service.TimeOf(&row.CreatedAt), LastSeenAt: service.TimeOf(row.LastSeenAt),
	}
	if err := json.Unmarshal([]byte(row.Tags), &s.Tags); err != nil {
		l.err = cmp.Or(l.err, fmt.Errorf("read the tags of server %s: %w", row.ID, err))
	}
	of := query.ListScheduledCommandsParams{TeamID: row.TeamID, ServerID: row.ID}
	s.Scheduled = list(l, l.q.ListScheduledCommands, of, func(row query.ScheduledCommand) Scheduled {
		return Scheduled{
			Head: Head{row.ID, row.Name}, Command: row.Command, Cron: row.Cron, Disabled: !row.Enabled,
			LastRunAt:    service.TimeOf(row.LastRunAt),
			LastExitCode: *cmp.Or(row.LastExitCode, new(int64)), Failures: row.ConsecutiveFailures,
		}
	})
	return s
}

func monitor(row query.Monitor) Monitor {
	return Monitor{
		Head: Head{row.ID, row.Name}, Type: row.Type, Target: row.Target, Interval: row.IntervalSeconds,
		Disabled:       !row.Enabled,
		OpensIncidents: row.OpensIncidents, Status: row.Status,
		LastCheckAt: service.TimeOf(row.LastCheckAt), LastChangeAt: service.TimeOf(row.LastStatusChangeAt),
	}
}

// page returns a page with those of the team's components that are on it.
func (l *loader) page(row query.StatusPage, components []query.ListComponentsRow) Page {
	p := Page{
		Head: Head{row.ID, row.Name}, Hostname: row.UniqueHostname, Slug: row.Slug, Visibility: row.Visibility,
		Color:       row.PrimaryColor,
		Description: *cmp.Or(row.Description, new("")), Suspended: row.Suspended, CreatedAt: service.TimeOf(&row.CreatedAt),
		Subscribers: list(l, l.q.ListSubscribersOfPageAnyTeam, row.ID, subscriber),
	}
	for _, c := range components {
		if c.StatusPageID != row.ID {
			continue
		}
		component := Component{
			Head: Head{c.ID, c.Name}, Group: *cmp.Or(c.GroupName, new("")), Monitor: *cmp.Or(c.MonitorID, new("")),
			Position: int(c.Position),
		}
		if c.MonitorID == nil {
			component.Status = c.Status
		}
		p.Components = append(p.Components, component)
	}
	return p
}

func subscriber(row query.Subscriber) Subscriber {
	if row.Channel == service.ChannelEmail {
		return Subscriber{Email: row.Address}
	}
	s := Subscriber{Webhook: row.Address}
	s.AllowHTTP = s.input("").Check() != nil // it was created so
	return s
}
