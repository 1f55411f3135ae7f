package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
)

// Options of [Apply].
type Options struct {
	// Clock is that of the backend. It must be set.
	Clock func() time.Time
	// Backend inserts subscribers; nil for inventories without them.
	Backend *service.Backend
	// Actor is the author of the audit entries; nil writes none, for data that is not an action and has no subscribers.
	Actor *audit.Actor
}

// A Result is what Apply has changed.
type Result struct {
	Changes []Change // in their order
	Kept    []string // the rows that the file does not have, as kind and path
	Secrets []Secret // of new webhooks
}

// A Change is a row that is created or changed.
type Change struct {
	Kind, Path string   // the path has the names of parents
	Fields     []string // that change, with the values of before and after; nil for a new row

	team, id, action string
	write            writer
}

// A writer writes the row of a change.
type writer func(ctx context.Context, q *query.Queries) error

// A Secret is that of a new webhook.
type Secret struct{ SubscriberID, Text string }

// Apply creates the rows of the file that do not exist, and changes those that differ, in the transaction of q. It keeps all others. It
// compares with the rows of the transaction, so that a second Apply changes nothing.
func Apply(ctx context.Context, q *query.Queries, f File, o Options) (Result, error) {
	if err := f.check(o.Clock()); err != nil {
		return Result{}, err
	}
	current, err := load(ctx, q)
	if err != nil {
		return Result{}, err
	}
	p := &plan{Options: o, current: map[string]bool{}}
	addIDs(p.current, reflect.ValueOf(current))
	p.taken = maps.Clone(p.current)
	addIDs(p.taken, reflect.ValueOf(f))
	p.teams(current.Teams, f.Teams)
	if err := errors.Join(p.problems...); err != nil {
		return Result{}, err
	}
	for _, c := range p.Changes {
		if err := p.write(ctx, q, c); err != nil {
			return Result{}, fmt.Errorf("write the %s %s: %w", c.Kind, c.Path, err)
		}
	}
	return p.Result, nil
}

// write writes a change with its audit entry, if it has an action.
func (p *plan) write(ctx context.Context, q *query.Queries, c Change) error {
	if err := c.write(ctx, q); err != nil || p.Actor == nil || c.action == "" {
		return err
	}
	now, err := audit.TimeOfWrite(ctx, q, p.Clock, c.team)
	if err != nil {
		return err
	}
	return p.Actor.Action(c.team, c.action, c.id, now).Record(ctx, q)
}

// A plan has the changes of a file.
type plan struct {
	Options
	Result

	problems []error
	current  map[string]bool // ids of the rows that exist
	taken    map[string]bool // these ids, and those of the file and of new rows
}

// addIDs adds the ids of a row and of those below it.
func addIDs(ids map[string]bool, row reflect.Value) {
	for _, value := range row.Fields() {
		if h, ok := reflect.TypeAssert[Head](value); ok && h.ID != "" {
			ids[h.ID] = true
		}
		if isList(value.Type()) {
			for j := range value.Len() {
				addIDs(ids, value.Index(j))
			}
		}
	}
}

// A kind of rows, with its actions in the audit log.
type kind struct{ name, created, updated string }

// teams plans the changes of all teams.
func (p *plan) teams(current, wanted []Team) {
	before := compare(p, kind{"team", "team.created", "team.updated"}, parent{}, current, wanted, p.writeTeam)
	for i := range wanted {
		t := &team{plan: p, Team: &wanted[i]}
		t.fleet(before[i])
		t.monitoring(before[i])
	}
}

// A parent has the rows of a list.
type parent struct{ team, id, path string }

// A team is a team of the file.
type team struct {
	*plan
	*Team

	groups, monitors map[string]string // ids by name
}

func (t *team) parent() parent { return parent{t.ID, t.ID, t.Name + "/"} }

func (t *team) fleet(before Team) {
	k := kind{"server group", "server_group.created", "server_group.updated"}
	compare(t.plan, k, t.parent(), before.Groups, t.Groups, t.writeGroup)
	names, ids := index(t.Groups, before.Groups)
	t.groups = ids
	before.nameGroups(names)
	k = kind{"server", "server.created", "server.updated"}
	servers := compare(t.plan, k, t.parent(), before.Servers, t.Servers, t.writeServer)
	k = kind{"scheduled command", "scheduled_command.created", "scheduled_command.updated"}
	for i, s := range t.Servers {
		of := parent{t.ID, s.ID, t.Name + "/" + s.Name + "/"}
		compare(t.plan, k, of, servers[i].Scheduled, s.Scheduled, func(c *Scheduled, created bool) writer {
			return t.writeScheduled(s, c, created)
		})
	}
}

func (t *team) monitoring(before Team) {
	k := kind{"monitor", "monitor.created", "monitor.updated"}
	compare(t.plan, k, t.parent(), before.Monitors, t.Monitors, t.writeMonitor)
	names, ids := index(t.Monitors, before.Monitors)
	t.monitors = ids
	before.nameMonitors(names)
	k = kind{"status page", "status_page.created", "status_page.updated"}
	pages := compare(t.plan, k, t.parent(), before.Pages, t.Pages, t.writePage)
	k = kind{"component", "component.created", "component.updated"}
	for i, p := range t.Pages {
		path := t.Name + "/" + p.Name + "/"
		compare(t.plan, k, parent{t.ID, p.ID, path}, pages[i].Components, p.Components, func(c *Component, created bool) writer {
			return t.writeComponent(p, c, created)
		})
		t.subscribers(path, pages[i].Subscribers, p)
	}
}

// subscribers plans the subscribers that the page does not have. The others are kept as they are.
func (t *team) subscribers(path string, before []Subscriber, p Page) {
	for _, s := range p.Subscribers {
		if !slices.ContainsFunc(before, s.sameAddress) {
			t.Changes = append(t.Changes, Change{Kind: "subscriber", Path: path + s.shown(), write: t.writeSubscriber(p, s)})
		}
	}
	for _, s := range before {
		if !slices.ContainsFunc(p.Subscribers, s.sameAddress) {
			t.Kept = append(t.Kept, "subscriber "+path+s.shown())
		}
	}
}

// compare plans the changes from the current rows of a parent to the wanted ones, to which it adds ids and state. It returns the current
// row of each wanted one, which is zero for a new one.
func compare[T any, P item[T]](
	p *plan, k kind, of parent, current, wanted []T, write func(row P, created bool) writer,
) []T {
	before, kept := match[T, P](current, wanted)
	names := map[string]bool{}
	for i := range wanted {
		row, old := P(&wanted[i]), P(&before[i]).head().ID
		h, created := row.head(), old == ""
		names[h.Name] = true
		c := Change{Kind: k.name, Path: of.path + h.Name, action: k.updated}
		if created {
			if p.current[h.ID] {
				p.problem(k, of, h, "a row elsewhere has the id, and rows do not move")
			}
			h.ID, c.action = cmp.Or(h.ID, p.derivedID(k.name, of.id, h.Name)), k.created
		} else {
			h.ID = old
			c.Fields = changes(reflect.ValueOf(before[i]), reflect.ValueOf(row).Elem())
		}
		c.team, c.id, c.write = cmp.Or(of.team, h.ID), h.ID, write(row, created)
		if created || len(c.Fields) > 0 {
			p.Changes = append(p.Changes, c)
		}
	}
	for _, h := range kept {
		p.Kept = append(p.Kept, k.name+" "+of.path+h.Name)
		if names[h.Name] {
			p.problem(k, of, &h, "another one, which the file does not have, has the name")
		}
	}
	return before
}

func (p *plan) problem(k kind, of parent, h *Head, text string) {
	p.problems = append(p.problems, fmt.Errorf("%s %s%s: %s: %s", k.name, of.path, h.Name, text, h.ID))
}

// match returns the current row of each wanted one, by id, else by name, and the others.
func match[T any, P item[T]](current, wanted []T) (before []T, kept []Head) {
	before = make([]T, len(wanted))
	matched := map[string]bool{} // by id
	for _, same := range []func(c, w *Head) bool{
		func(c, w *Head) bool { return c.ID == w.ID },
		func(c, w *Head) bool { return c.Name == w.Name },
	} {
		for i := range wanted {
			for j := range current {
				c := P(&current[j]).head()
				if P(&before[i]).head().ID == "" && !matched[c.ID] && same(c, P(&wanted[i]).head()) {
					before[i], matched[c.ID] = current[j], true
				}
			}
		}
	}
	for j := range current {
		if c := P(&current[j]).head(); !matched[c.ID] {
			kept = append(kept, *c)
		}
	}
	return before, kept
}

// index returns the names of rows by id, and their ids by name. A row that is in several lists has the name of the first.
func index[T any, P item[T]](lists ...[]T) (names, ids map[string]string) {
	names, ids = map[string]string{}, map[string]string{}
	for _, list := range lists {
		for i := range list {
			h := P(&list[i]).head()
			if _, known := names[h.ID]; !known {
				names[h.ID], ids[h.Name] = h.Name, h.ID
			}
		}
	}
	return names, ids
}

// nameGroups replaces the ids in the references to groups by names.
func (t *Team) nameGroups(names map[string]string) {
	for i := range t.Servers {
		t.Servers[i].Group = names[t.Servers[i].Group]
	}
}

// nameMonitors replaces the ids in the references to monitors by names.
func (t *Team) nameMonitors(names map[string]string) {
	for _, p := range t.Pages {
		for i := range p.Components {
			p.Components[i].Monitor = names[p.Components[i].Monitor]
		}
	}
}

// changes returns the differences between the fields of two rows, and keeps the state of the current one.
func changes(current, wanted reflect.Value) (list []string) {
	for i := range wanted.NumField() {
		field, before, after := wanted.Type().Field(i), current.Field(i), wanted.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case field.Anonymous:
			list = append(list, changes(before, after)...)
		case field.Tag.Get("state") != "":
			after.Set(before)
		case isList(field.Type) || shown(before) == shown(after):
		default:
			list = append(list, fmt.Sprintf("%s %s → %s", name, shown(before), shown(after)))
		}
	}
	return list
}

func shown(value reflect.Value) string {
	if value.Kind() == reflect.String || value.Kind() == reflect.Slice {
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprint(value)
}

// derivedID returns the id of a new row, which follows from its kind, the id of its parent and its name. The number is another one if a
// renamed row has the id.
func (p *plan) derivedID(kind, parent, name string) string {
	for number := 0; ; number++ {
		text := fmt.Appendf(nil, "opsgate inventory\n%s\n%s\n%s\n%d", kind, parent, name, number)
		if id := uuid.NewSHA1(uuid.NameSpaceURL, text).String(); !p.taken[id] {
			p.taken[id] = true
			return id
		}
	}
}
