package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// Actor is the author of the audit entries; nil writes none, for data that is not an action and
	// has no subscribers.
	Actor *audit.Actor
}

// A Result is what Apply has changed.
type Result struct {
	Changes []Change                  // in their order
	Kept    []string                  // the rows that the file does not have, as kind and path
	Secrets []service.AddedSubscriber // new webhooks
}

// A Change is a row that is created or changed.
type Change struct {
	Kind, Path string   // the path has the names of parents
	Fields     []string // that change, with the values of before and after; nil for a new row

	team, parent, id, action string
	write                    func(context.Context, *query.Queries) error
}

func (c Change) created() bool { return c.Fields == nil }

// Apply creates the rows of the file that do not exist, and changes those that differ, in the
// transaction of q. It keeps all others. It compares with the rows of the transaction, so that a
// second Apply changes nothing.
func Apply(ctx context.Context, q *query.Queries, f File, o Options) (Result, error) {
	if err := f.check(o.Clock()); err != nil {
		return Result{}, err
	}
	current, err := load(ctx, q)
	if err != nil {
		return Result{}, err
	}
	p := &plan{Options: o, current: idsOf(&current), taken: idsOf(&current, &f)}
	p.teams(current.Teams, f.Teams)
	p.addresses(current.Teams, f.Teams)
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
	return p.Actor.Record(ctx, q, p.Clock, c.team, c.action, c.id)
}

// A plan has the changes of a file.
type plan struct {
	Options
	Result

	problems []error
	current  map[string]bool // ids of the rows that exist
	taken    map[string]bool // these ids, and those of the file and of new rows
}

// idsOf returns the ids of the rows of files.
func idsOf(files ...*File) map[string]bool {
	ids := map[string]bool{}
	for _, f := range files {
		eachRow("", reflect.ValueOf(f).Elem(), func(_ string, _ int, row reflect.Value) {
			if h, ok := reflect.TypeAssert[Head](row.Field(0)); ok && h.ID != "" {
				ids[h.ID] = true
			}
		})
	}
	return ids
}

// teams plans the changes of all teams.
func (p *plan) teams(current, wanted []Team) {
	before := compare(p, kind{"team.created", "team.updated"}, parent{}, current, wanted, p.writeTeam)
	for i := range wanted {
		t := &team{plan: p, Team: &wanted[i]}
		t.fleet(before[i])
		t.monitoring(before[i])
	}
}

// addresses reports the hostnames and slugs of the file that another status page has, also if the
// file changes that one.
func (p *plan) addresses(current, wanted []Team) {
	type owner struct{ id, path string }
	owners := map[string]owner{} // in the file, by address
	for n, t := range slices.Concat(wanted, current) {
		for _, page := range t.Pages {
			path := t.Name + "/" + page.Name
			for _, address := range []string{"hostname " + page.Hostname, "slug " + page.Slug} {
				first, taken := owners[address]
				switch {
				case taken && first.id != page.ID:
					p.problems = append(p.problems,
						fmt.Errorf("status page %s: the status page %s has the %s", first.path, path, address))
				case n < len(wanted) && address != "slug ":
					owners[address] = owner{page.ID, path}
				}
			}
		}
	}
}

// A kind of rows has actions in the audit log.
type kind struct{ created, updated string }

// name returns the resource of the actions in words.
func (k kind) name() string {
	resource, _, _ := strings.Cut(k.created, ".")
	return strings.ReplaceAll(resource, "_", " ")
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
	compare(t.plan, kind{"server_group.created", "server_group.updated"}, t.parent(), before.Groups, t.Groups,
		t.writeGroup)
	names, ids := index(t.Groups, before.Groups)
	t.groups = ids
	before.nameGroups(names)
	servers := compare(t.plan, kind{"server.created", "server.updated"}, t.parent(), before.Servers, t.Servers,
		t.writeServer)
	for i, s := range t.Servers {
		t.refer("server "+s.Name, "group", s.Group, t.groups)
		of := parent{t.ID, s.ID, t.Name + "/" + s.Name + "/"}
		compare(t.plan, kind{"scheduled_command.created", "scheduled_command.updated"}, of, servers[i].Scheduled, s.Scheduled,
			t.writeScheduled)
	}
}

func (t *team) monitoring(before Team) {
	compare(t.plan, kind{"monitor.created", "monitor.updated"}, t.parent(), before.Monitors, t.Monitors, t.writeMonitor)
	names, ids := index(t.Monitors, before.Monitors)
	t.monitors = ids
	before.nameMonitors(names)
	pages := compare(t.plan, kind{"status_page.created", "status_page.updated"}, t.parent(), before.Pages, t.Pages,
		t.writePage)
	for i, p := range t.Pages {
		of := parent{t.ID, p.ID, t.Name + "/" + p.Name + "/"}
		compare(t.plan, kind{"component.created", "component.updated"}, of, pages[i].Components, p.Components,
			t.writeComponent)
		for _, c := range p.Components {
			t.refer("component "+c.Name, "monitor", c.Monitor, t.monitors)
		}
		t.subscribers(of, pages[i].Subscribers, p.Subscribers)
	}
}

// refer reports a reference to a row that does not exist.
func (t *team) refer(from, kind, name string, ids map[string]string) {
	if name != "" && ids[name] == "" {
		t.problems = append(t.problems, fmt.Errorf("%s of team %s: there is no %s %q", from, t.Name, kind, name))
	}
}

// subscribers plans the subscribers that the page does not have. The others are kept as they are.
func (t *team) subscribers(of parent, before, wanted []Subscriber) {
	for _, s := range wanted {
		if !slices.ContainsFunc(before, s.sameAddress) {
			c := Change{Kind: "subscriber", Path: of.path + s.shown(), parent: of.id}
			c.write = func(ctx context.Context, q *query.Queries) error { return t.writeSubscriber(ctx, q, &s, c) }
			t.Changes = append(t.Changes, c)
		}
	}
	for _, s := range before {
		if !slices.ContainsFunc(wanted, s.sameAddress) {
			t.Kept = append(t.Kept, "subscriber "+of.path+s.shown())
		}
	}
}

// An item is a pointer to a row that has a name.
type item[T any] interface {
	*T
	head() *Head
}

// compare plans the changes from the current rows of a parent to the wanted ones, to which it adds
// ids and state. It returns the current row of each wanted one, which is zero for a new one.
func compare[T any, P item[T]](
	p *plan, k kind, of parent, current, wanted []T, write func(context.Context, *query.Queries, P, Change) error,
) []T {
	name := k.name()
	before, kept := match[T, P](current, wanted)
	for i := range wanted {
		row, old := P(&wanted[i]), P(&before[i]).head().ID
		h := row.head()
		c := Change{Kind: name, Path: of.path + h.Name, parent: of.id, action: k.updated}
		if old == "" {
			if p.current[h.ID] {
				p.problem(c, "a row elsewhere has the id "+h.ID+", and rows do not move")
			}
			h.ID, c.action = cmp.Or(h.ID, p.derivedID(name, of.id, h.Name)), k.created
		} else {
			h.ID = old
			c.Fields = changes(reflect.ValueOf(before[i]), reflect.ValueOf(row).Elem())
		}
		if same := slices.IndexFunc(kept, func(k Head) bool { return k.Name == h.Name }); same >= 0 {
			p.problem(c, "another row has the name, with the id "+kept[same].ID+": use that id or none, or rename the other "+
				"one first")
		}
		c.team, c.id = cmp.Or(of.team, h.ID), h.ID
		c.write = func(ctx context.Context, q *query.Queries) error { return write(ctx, q, row, c) }
		if old == "" || len(c.Fields) > 0 {
			p.Changes = append(p.Changes, c)
		}
	}
	for _, h := range kept {
		p.Kept = append(p.Kept, name+" "+of.path+h.Name)
	}
	return before
}

func (p *plan) problem(c Change, text string) {
	p.problems = append(p.problems, fmt.Errorf("%s %s: %s", c.Kind, c.Path, text))
}

// match returns the current row of each wanted one, by its id, or by its name if it has none, and
// the others.
func match[T any, P item[T]](current, wanted []T) (before []T, kept []Head) {
	before = make([]T, len(wanted))
	ids, names := map[string]int{}, map[string]int{} // indices of wanted rows, by name of those without an id
	for i := range wanted {
		if h := P(&wanted[i]).head(); h.ID != "" {
			ids[h.ID] = i
		} else {
			names[h.Name] = i
		}
	}
	for i := range current {
		h := P(&current[i]).head()
		at, found := ids[h.ID]
		if !found {
			at, found = names[h.Name]
			delete(names, h.Name) // of two rows with the name, the first is matched
		}
		if !found {
			kept = append(kept, *h)
			continue
		}
		before[at] = current[i]
	}
	return before, kept
}

// index returns the names of rows by id, and their ids by name. A row that is in several lists has
// the name of the first.
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

// changes returns the differences between the fields of two rows, and keeps the state of the
// current one.
func changes(current, wanted reflect.Value) (list []string) {
	for i := range wanted.NumField() {
		field, before, after := wanted.Type().Field(i), current.Field(i), wanted.Field(i)
		switch {
		case field.Anonymous:
			list = append(list, changes(before, after)...)
		case field.Tag.Get("state") != "":
			after.Set(before)
		case isList(field.Type) || shown(before) == shown(after):
		default:
			list = append(list, fmt.Sprintf("%s %s → %s", keyOf(field), shown(before), shown(after)))
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

// derivedID returns the id of a new row, which follows from its kind, the id of its parent and its
// name. The number is another one if a renamed row has the id.
func (p *plan) derivedID(kind, parent, name string) string {
	for number := 0; ; number++ {
		text := fmt.Appendf(nil, "opsgate inventory\n%s\n%s\n%s\n%d", kind, parent, name, number)
		if id := uuid.NewSHA1(uuid.NameSpaceURL, text).String(); !p.taken[id] {
			p.taken[id] = true
			return id
		}
	}
}
