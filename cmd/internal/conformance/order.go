package conformance

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A list is a row about the rows in the responses of a method: their order, and the kind of the fixtures that they include.
type list struct {
	method string
	// order is the fields that rows are ordered by, each with a minus if it is descending.
	order []string
	// unlike is the order that the list does not have: evidence is a list in which the two differ.
	unlike []string
	// complete are the kinds of resources of which the list has all of the team. The second team need not have those after the first.
	complete []Kind
	// requests are the changes of the requests whose lists are checked; nil means one request without changes.
	requests []fields
}

func lists() []list {
	byName, byPosition, newestFirst := []string{"name", "id"}, []string{"position", "id"}, []string{"-created_at", "-id"}
	return []list{
		{method: "fleet/ListServers", order: byName, complete: []Kind{Server}},
		{method: "fleet/ListServerGroups", order: byPosition},
		{method: getServerMetrics, order: []string{"at"}, requests: []fields{{"range": lastDay}, {"range": lastMonth}}},
		{method: "fleet/ListScheduledCommands", order: byName},
		{method: listServerCommands, order: []string{"-created_at"}, unlike: []string{"-started_at"}},
		{method: "monitoring/ListMonitors", order: byName, complete: []Kind{Monitor, DisabledMonitor}},
		{method: listMonitorChecks, order: []string{"-checked_at"}},
		{method: listIncidents, order: newestFirst},
		{method: getIncident, order: []string{"created_at"}},
		{method: listStatusPages, order: byName, complete: []Kind{StatusPage, SuspendedPage}},
		{method: getStatusPage, order: byPosition, complete: []Kind{Component, LinkedComponent}},
		{method: listStatusPageIncidents, order: []string{"-created_at"}},
		{method: listAuditEntries, order: newestFirst},
	}
}

func listRules() (rules []rule) {
	for _, l := range lists() {
		on := named(l.method)
		rules = append(rules, rule{name: "order", sentence: "Rows are ordered by " + l.orderText() + ".", on: on, check: l.isOrdered})
		if len(l.complete) > 0 {
			rules = append(rules, rule{
				name: "complete", on: on, needs: l.complete[:1], check: l.isComplete,
				sentence: "The list has every " + kindText(l.complete[0]) + " of the team, or of the page.",
			})
		}
	}
	return rules
}

// isOrdered needs two rows or more.
func (l list) isOrdered(p *probe) {
	if l.requests == nil {
		l.requests = []fields{nil}
	}
	for _, changes := range l.requests {
		rows := rowsOf(p.method, p.call(changes))
		must(l.ordered(rows))
		must(l.differs(rows))
	}
}

// differs returns an error if the rows are also in the order that the list does not have. It ignores those without the fields of that.
func (l list) differs(rows []protoreflect.Message) error {
	other := list{order: l.unlike}
	for name := range other.keys() {
		rows = slices.DeleteFunc(rows, func(row protoreflect.Message) bool { return !row.Has(row.Descriptor().Fields().ByName(name)) })
	}
	if l.unlike != nil && slices.IsSortedFunc(rows, func(a, b protoreflect.Message) int { return other.compare(a, b, false) }) {
		return lacks("rows whose order by %s differs", other.orderText())
	}
	return nil
}

// isComplete checks that the resources of the fixtures are in the list, and that a disabled monitor and a suspended page are shown as such.
func (l list) isComplete(p *probe) {
	p.forBothTeams(func(p *probe) {
		rows := rowsOf(p.method, p.call(nil))
		for _, kind := range l.complete {
			id := p.own.Resources[kind]
			if id == "" {
				continue
			}
			what := "the " + kindText(kind) + " " + id + " in the list of team " + p.own.ID
			at := slices.IndexFunc(rows, func(row protoreflect.Message) bool { return text(row, "id") == id })
			require(at >= 0, what, "%d others", len(rows))
			require(kind != DisabledMonitor || !get(rows[at], "enabled").Bool(), what, "an enabled monitor")
			require(kind != SuspendedPage || get(rows[at], "suspended").Bool(), what, "a page that is not suspended")
		}
	})
	for _, kind := range l.complete {
		_ = p.stated(kind)
	}
}

// ordered returns a breach if two neighbours are in the wrong order. It accepts names in the order of their bytes, and names in the order
// of their letters regardless of case: the contract allows both, because databases differ.
func (l list) ordered(rows []protoreflect.Message) error {
	if len(rows) < 2 {
		return lacks("two rows in the list")
	}
	byBytes := func(a, b protoreflect.Message) int { return l.compare(a, b, false) }
	byLetters := func(a, b protoreflect.Message) int { return l.compare(a, b, true) }
	if slices.IsSortedFunc(rows, byBytes) || slices.IsSortedFunc(rows, byLetters) {
		return nil
	}
	i := 1
	for byBytes(rows[i-1], rows[i]) <= 0 {
		i++
	}
	return expected("rows ordered by "+l.orderText(), "%s before %s", l.rowText(rows[i-1]), l.rowText(rows[i]))
}

func (l list) compare(a, b protoreflect.Message, byLetters bool) int {
	for name, descending := range l.keys() {
		order := compareField(a, b, a.Descriptor().Fields().ByName(name))
		switch {
		case order == 0:
		case byLetters && name == "name":
			return cmp.Compare(strings.ToLower(text(a, name)), strings.ToLower(text(b, name)))
		case descending:
			return -order
		default:
			return order
		}
	}
	return 0
}

// compareField compares texts, numbers or times. The well-formed checks report missing times.
func compareField(a, b protoreflect.Message, field protoreflect.FieldDescriptor) int {
	switch {
	case field.Kind() == protoreflect.StringKind:
		return cmp.Compare(a.Get(field).String(), b.Get(field).String())
	case field.Message() != nil:
		return timestamp(a, field).AsTime().Compare(timestamp(b, field).AsTime())
	}
	return cmp.Compare(a.Get(field).Int(), b.Get(field).Int())
}

// keys returns the names of the fields that rows are ordered by, and whether each is descending.
func (l list) keys() iter.Seq2[protoreflect.Name, bool] {
	return func(yield func(protoreflect.Name, bool) bool) {
		for _, key := range l.order {
			name, descending := strings.CutPrefix(key, "-")
			if !yield(protoreflect.Name(name), descending) {
				return
			}
		}
	}
}

func (l list) orderText() string {
	var texts []string
	for name, descending := range l.keys() {
		texts = append(texts, "`"+string(name)+"`"+map[bool]string{true: ", descending"}[descending])
	}
	return strings.Join(texts, ", and then by ")
}

// rowText returns the values that rows are ordered by.
func (l list) rowText(row protoreflect.Message) string {
	var texts []string
	for name := range l.keys() {
		texts = append(texts, string(name)+" "+fieldText(row.Interface(), row.Descriptor().Fields().ByName(name)))
	}
	return strings.Join(texts, " and ")
}
