package conformance

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
)

const (
	maxChoices   = 50  // resources from which resource chooses one
	maxListPages = 100 // that ids reads: checks that write leave incidents, which are newer than others
)

// resource returns the id of a resource of the own team that a request may name, or "" if it names
// none. For a write it creates an incident, for a read it chooses the resource with the most rows:
// that has the most evidence. If the team has none, the check is not proved.
func (p *probe) resource() string {
	switch {
	case p.kind() == "":
		return ""
	case p.method.Writes():
		return p.create(nil).GetId()
	}
	key := p.own.ID + p.method.String()
	if p.chosen[key] == "" {
		p.chosen[key] = p.choose()
	}
	return p.chosen[key]
}

func (p *probe) choose() string {
	ids := p.ids(maxChoices)
	needs(len(ids) > 0, "a %s of team %s", kindText(p.kind()), p.own.ID)
	chosen, most := ids[0], -1
	for _, id := range ids {
		response, err := p.attempt(p.widest().with(fields{idField(p.method): id}))
		if err != nil {
			continue // the checks of the method report it
		}
		if n := p.size(response); n > most {
			chosen, most = id, n
		}
		if p.method.Rows() == nil {
			break
		}
	}
	return chosen
}

// widest returns the changes of a request for the longest time.
func (p *probe) widest() fields {
	switch {
	case p.method.HasRequestField("range"):
		return fields{"range": lastMonth}
	case p.method.HasRequestField("since"):
		return p.lastMonthOfChecks()
	}
	return fields{}
}

// size returns the number of rows of a response, on all numbered pages.
func (p *probe) size(response proto.Message) int {
	if p.method.Rows() == nil {
		return 0
	}
	if counted, ok := response.(interface{ GetTotal() int32 }); ok {
		return int(counted.GetTotal())
	}
	return len(rowsOf(p.method, response))
}

// ids returns ids of resources of the own team that requests may name, at most n, from all parts of
// the list whose rows are messages of the kind's name: the last of them, which may be the oldest,
// too.
func (p *probe) ids(n int) []string {
	key := p.own.ID + p.kind()
	if len(p.listed[key]) == 0 { // another check may create one
		p.listed[key] = p.list()
	}
	all := p.listed[key]
	some := make([]string, min(len(all), n))
	for i := range some {
		some[i] = all[(i+1)*len(all)/len(some)-1]
	}
	return some
}

// list reads the ids of that list.
func (p *probe) list() (ids []string) {
	lists := slices.DeleteFunc(contract.Methods(), func(m contract.Method) bool {
		kind := strings.ReplaceAll(p.kind(), "_", "")
		return m.Resource() != "" || m.Rows() == nil || !strings.EqualFold(string(m.Rows().Message().Name()), kind)
	})
	if p.kind() == "" || len(lists) == 0 {
		return nil
	}
	list := p.of(lists[0].String())
	for response := range list.pages(maxListPages, nil) {
		for _, row := range rowsOf(list.method, response) {
			ids = append(ids, text(row, "id"))
		}
	}
	return ids
}

// pageID returns the id of the own team's status page with the most components.
func (p *probe) pageID() string { return p.of(getStatusPage).resource() }

// components returns the ids of the components of that page.
func (p *probe) components() []string { return idsOf(p.statusPage(p.pageID()).GetComponents()) }

// component returns the id of one of them.
func (p *probe) component() string {
	ids := p.components()
	needs(len(ids) > 0, "a component on a status page of team %s", p.own.ID)
	return ids[0]
}
