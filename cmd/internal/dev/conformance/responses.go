package conformance

import (
	"iter"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	maxPages     = 20 // that responses reads of one list
	maxResources = 20 // for which responses calls a method
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
	for _, id := range p.ids(maxResources) {
		all = append(all, fields{idField(p.method): id}.with(all[0]))
	}
	return all
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
