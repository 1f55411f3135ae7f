package conformance

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"opsgate/proto/contract"
)

// A list is a row about the rows in the responses of a method: their order, and whether the
// fixtures have their number.
type list struct {
	method string
	// order is the fields that rows are ordered by, each with a minus if it is descending.
	order []string
	// unlike is the order that the list does not have: evidence is a list in which the two differ.
	unlike []string
	// counted is set if the fixtures may have the number of the rows: the list has all of the team.
	counted bool
	// both is a field of rows, a bool: evidence is a list with both values.
	both protoreflect.Name
	// requests are the changes of the requests whose lists are checked; nil means one request
	// without changes.
	requests []fields
}

func lists() []list {
	byName, byPosition, newestFirst := []string{"name", "id"}, []string{"position", "id"}, []string{"-created_at", "-id"}
	return []list{
		{method: "fleet/ListServers", order: byName, counted: true},
		{method: "fleet/ListServerGroups", order: byPosition, counted: true},
		{method: getServerMetrics, order: []string{"at"}, requests: []fields{{"range": lastDay}, {"range": lastMonth}}},
		{method: "fleet/ListScheduledCommands", order: byName},
		{method: listServerCommands, order: []string{"-created_at"}, unlike: []string{"-started_at"}},
		{method: "monitoring/ListMonitors", order: byName, counted: true, both: "enabled"},
		{method: listMonitorChecks, order: []string{"-checked_at"}},
		{method: listIncidents, order: newestFirst},
		{method: getIncident, order: []string{"created_at"}},
		{method: listStatusPages, order: byName, counted: true, both: "suspended"},
		{method: getStatusPage, order: byPosition, counted: true},
		{method: listStatusPageIncidents, order: []string{"-created_at"}},
		{method: listAuditEntries, order: newestFirst},
	}
}

// countedRows returns the fields of responses with rows whose number the fixtures may have.
func countedRows() (names []string) {
	for _, l := range lists() {
		if m, err := contract.MethodNamed(l.method); err == nil && l.counted {
			names = append(names, string(m.Rows().Name()))
		}
	}
	return names
}

func listRules() (rules []rule) {
	for _, l := range lists() {
		on := named(l.method)
		rules = append(rules,
			rule{name: "order", sentence: "Rows are ordered by " + l.orderText() + ".", on: on, check: l.isOrdered})
		if l.counted {
			rules = append(rules, rule{
				name: "complete", sentence: "The list has all rows of the team, or of the page.", on: on, check: l.isComplete,
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

// differs returns an error if the rows are also in the order that the list does not have. It
// ignores those without the fields of that.
func (l list) differs(rows []protoreflect.Message) error {
	other := list{order: l.unlike}
	for name := range other.keys() {
		rows = slices.DeleteFunc(rows,
			func(row protoreflect.Message) bool { return !row.Has(row.Descriptor().Fields().ByName(name)) })
	}
	if l.unlike != nil &&
		slices.IsSortedFunc(rows, func(a, b protoreflect.Message) int { return other.compare(a, b, false) }) {
		return lacks("rows whose order by %s differs", other.orderText())
	}
	return nil
}

// isComplete compares the number of rows with that in the fixtures.
func (l list) isComplete(p *probe) {
	name := string(p.method.Rows().Name())
	p.forBothTeams(func(p *probe) {
		rows, want := p.allRows(), p.own.Rows[name]
		require(len(rows) >= want,
			fmt.Sprintf("at least %d %s of team %s, as in the fixtures", want, kindText(name), p.own.ID), "%d", len(rows))
		needs(want > 0, "rows.%s of team %s in the fixtures", name, p.own.ID)
	})
	rows := p.allRows()
	for _, value := range []bool{true, false} {
		has := func(row protoreflect.Message) bool { return get(row, l.both).Bool() == value }
		needs(l.both == "" || slices.ContainsFunc(rows, has), "a row of team %s with `%s` %t", p.own.ID, l.both, value)
	}
}

// allRows returns the rows of the own team, of all resources that a request may name.
func (p *probe) allRows() (rows []protoreflect.Message) {
	if p.kind() == "" {
		return rowsOf(p.method, p.call(nil))
	}
	ids := p.ids(maxChoices)
	needs(len(ids) < maxChoices, "a team with less than %d %ss", maxChoices, kindText(p.kind()))
	for _, id := range ids {
		rows = append(rows, rowsOf(p.method, p.call(fields{idField(p.method): id}))...)
	}
	return rows
}

// ordered returns a breach if two neighbours are in the wrong order. It accepts names in the order
// of their bytes, and names in the order of their letters regardless of case: the contract allows
// both, because databases differ.
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
