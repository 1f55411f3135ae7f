package service

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"opsgate/internal/uuid"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

const (
	maxTitle          = 255
	maxMessageText    = 10_000
	maxComponents     = 100
	maxIdempotencyKey = 255
	maxRequestID      = 128
)

// normaliseCreate returns a copy of the request in a canonical form, so that equivalent requests
// are equal. Its error has a violation for each invalid field.
func normaliseCreate(r *incidentv1.CreateIncidentRequest) (*incidentv1.CreateIncidentRequest, error) {
	r = proto.CloneOf(r)
	var problems violations
	problems.writeFields(r)
	r.Title = strings.TrimSpace(r.GetTitle())
	problems.text("title", r.GetTitle(), maxTitle)
	problems.text("message", r.GetMessage(), maxMessageText)
	problems.status(r.GetStatus())
	if _, ok := storedImpact(r.GetImpact()); !ok {
		problems.add("impact", "must be none, minor, major or critical")
	}
	if r.StatusPageId != nil {
		if id, ok := uuid.Canonical(r.GetStatusPageId()); ok {
			r.StatusPageId = &id
		} else {
			problems.add("status_page_id", unknownPage)
		}
	}
	r.ComponentIds = problems.components(r.GetComponentIds())
	return r, problems.err()
}

// normaliseUpdate is normaliseCreate for updates.
func normaliseUpdate(r *incidentv1.AddIncidentUpdateRequest) (*incidentv1.AddIncidentUpdateRequest, error) {
	r = proto.CloneOf(r)
	var problems violations
	problems.writeFields(r)
	problems.text("message", r.GetMessage(), maxMessageText)
	problems.status(r.GetStatus())
	r.IncidentId = strings.ToLower(r.GetIncidentId())
	return r, problems.err()
}

// Descriptions of violations.
const (
	unknownPage          = "must be one of the team's status pages"
	unknownComponent     = "must be components of the team"
	componentOnOtherPage = "must be components of the given status page"
)

// writeFields checks the fields that all writes have: the actor and the idempotency key.
func (v *violations) writeFields(r interface {
	GetActor() *incidentv1.Actor
	GetIdempotencyKey() string
}) {
	if _, ok := uuid.Canonical(r.GetActor().GetTokenId()); !ok {
		v.add("actor.token_id", "must be a UUID")
	}
	if _, err := netip.ParseAddr(r.GetActor().GetIpAddress()); err != nil {
		v.add("actor.ip_address", "must be an IP address")
	}
	if len(r.GetActor().GetRequestId()) > maxRequestID {
		v.add("actor.request_id", fmt.Sprintf("must be at most %d characters", maxRequestID))
	}
	key := r.GetIdempotencyKey()
	invisible := func(c rune) bool { return c <= ' ' || c > '~' }
	if len(key) > maxIdempotencyKey || strings.ContainsFunc(key, invisible) {
		v.add("idempotency_key", fmt.Sprintf("must be 1 to %d visible ASCII characters", maxIdempotencyKey))
	}
}

// text checks a free text. Line breaks and tabs are the only control characters allowed.
func (v *violations) text(field, text string, limit int) {
	forbidden := func(c rune) bool { return unicode.IsControl(c) && !strings.ContainsRune("\n\r\t", c) }
	switch {
	case strings.TrimSpace(text) == "" || utf8.RuneCountInString(text) > limit:
		v.add(field, fmt.Sprintf("must be 1 to %d characters", limit))
	case strings.ContainsFunc(text, forbidden):
		v.add(field, "must not contain control characters other than line breaks and tabs")
	}
}

func (v *violations) status(status incidentv1.IncidentStatus) {
	if _, ok := storedStatus(status); !ok {
		v.add("status", "must be investigating, identified, monitoring or resolved")
	}
}

// components returns the ids sorted and without duplicates.
func (v *violations) components(ids []string) []string {
	set := make([]string, 0, len(ids))
	for _, id := range ids {
		canonical, ok := uuid.Canonical(id)
		if !ok {
			v.add("component_ids", unknownComponent)
			return nil
		}
		set = append(set, canonical)
	}
	slices.Sort(set)
	set = slices.Compact(set)
	if len(set) > maxComponents {
		v.add("component_ids", fmt.Sprintf("must be at most %d", maxComponents))
	}
	return set
}
