package conformance

import (
	"iter"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
)

const (
	maxPages  = 20 // that responses reads of one list
	maxOthers = 20 // resources beside that of the fixtures for which responses calls a method
)

// responses returns the responses of a method: of each page, also those with old rows, and for
// other resources of the team.
func (p *probe) responses() iter.Seq[proto.Message] {
	return func(yield func(proto.Message) bool) {
		for _, changes := range p.variants() {
			for response := range p.pages(maxPages, changes) {
				if !yield(response) {
					return
				}
			}
		}
	}
}

// variants returns the changes of requests that have other responses.
func (p *probe) variants() []fields {
	all := []fields{nil}
	switch {
	case p.method.Writes():
		return all
	case p.method.HasRequestField("range"):
		all = nil
		for _, span := range spans() {
			all = append(all, fields{"range": span.of})
		}
	case p.method.HasRequestField("since"):
		all = []fields{p.lastMonthOfChecks()}
	}
	for _, id := range p.others() {
		all = append(all, fields{idField(p.method): id}.with(all[0]))
	}
	return all
}

// others returns ids of resources of the team that requests may name, from the whole list of them.
func (p *probe) others() []string {
	lists := slices.DeleteFunc(contract.Methods(), func(m contract.Method) bool {
		kind := strings.ReplaceAll(string(p.kind()), "_", "")
		return m.Resource() != "" || m.Rows() == nil || !strings.EqualFold(string(m.Rows().Message().Name()), kind)
	})
	if p.kind() == "" || len(lists) == 0 {
		return nil
	}
	var ids, some []string
	list := p.of(lists[0].String())
	for response := range list.pages(maxPages, nil) {
		for _, row := range rowsOf(list.method, response) {
			ids = append(ids, text(row, "id"))
		}
	}
	for i := range min(len(ids), maxOthers) {
		some = append(some, ids[i*len(ids)/min(len(ids), maxOthers)])
	}
	return some
}

// pages returns the responses of the first pages of a list, or the only response of a method
// without pages.
func (p *probe) pages(most int, changes fields) iter.Seq[proto.Message] {
	return func(yield func(proto.Message) bool) {
		changes = fields{}.with(changes)
		for page := 1; page <= most; page++ {
			if p.method.HasRequestField("page") {
				changes["page"] = page
			}
			response, err := p.attempt(changes)
			if _, other := changes[idField(p.method)]; other && status.Code(err) == codes.NotFound {
				return // removed, or of a list that has others' resources, which is a breach of other rules
			}
			must(err)
			cursor := text(response.ProtoReflect(), "next_cursor")
			if !yield(response) || cursor == "" && !(p.method.HasRequestField("page") && len(messageIDs(response)) > 0) {
				return
			}
			if cursor != "" {
				changes["cursor"] = cursor
			}
		}
	}
}
