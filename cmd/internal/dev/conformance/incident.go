package conformance

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/proto/contract"
	auditv1 "opsgate/proto/ops/audit/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

const (
	listIncidents           = "incident/ListIncidents"
	getIncident             = "incident/GetIncident"
	createIncident          = "incident/CreateIncident"
	addIncidentUpdate       = "incident/AddIncidentUpdate"
	listStatusPages         = "incident/ListStatusPages"
	getStatusPage           = "incident/GetStatusPage"
	listStatusPageIncidents = "incident/ListStatusPageIncidents"
)

const (
	investigating = incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING
	identified    = incidentv1.IncidentStatus_INCIDENT_STATUS_IDENTIFIED
	monitoring    = incidentv1.IncidentStatus_INCIDENT_STATUS_MONITORING
	resolved      = incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED
)

// validFields returns values with which requests that have these fields are valid. Incidents are
// resolved from the start, so that no open incident stays behind.
func (p *probe) validFields() fields {
	return fields{
		"actor": p.actor, "title": "Conformance check " + uuid.NewString(), "status": resolved,
		"message": "Created by a conformance check. There is no real incident.", "token_sha256": make([]byte, sha256.Size),
	}
}

// create creates an incident.
func (p *probe) create(changes fields) *incidentv1.Incident {
	return call[*incidentv1.CreateIncidentResponse](p, createIncident, changes).GetIncident()
}

// update adds an update to an incident. By default it resolves the incident.
func (p *probe) update(incident string, changes fields) *incidentv1.IncidentUpdate {
	return call[*incidentv1.AddIncidentUpdateResponse](p, addIncidentUpdate,
		fields{"incident_id": incident}.with(changes)).GetUpdate()
}

// timeline returns an incident with its updates.
func (p *probe) timeline(incident string) *incidentv1.GetIncidentResponse {
	return call[*incidentv1.GetIncidentResponse](p, getIncident, fields{"incident_id": incident})
}

func incidentRules() []rule {
	create, update := named(createIncident), named(addIncidentUpdate)
	return []rule{
		{name: "of-the-page", on: named(listStatusPageIncidents), check: incidentsAreOfThePage,
			sentence: "ListStatusPageIncidents returns the incidents that are attached to the page, at most 100."},
		{name: "linked-component", on: named(getStatusPage), check: componentFollowsMonitor,
			sentence: "The status of a component is that of its monitor, if it is linked to one."},
		{name: "overall-status", on: named(getStatusPage), writes: true, check: overallStatusFollowsIncidents,
			sentence: "The overall status of a page follows its open incidents."},
		{name: "creates", on: create, check: incidentIsCreated,
			sentence: "CreateIncident creates an incident with its first update, status and impact. `started_at` is the time " +
				"of the call."},
		{name: "resolved", on: create, check: createdAsResolved,
			sentence: "With the status resolved, `resolved_at` is the time of the call."},
		{name: "attached", on: create, check: incidentIsAttached,
			sentence: "The incident is attached to the given status page."},
		{name: "longest", on: contract.Method.Writes, check: longestIsStored,
			sentence: "A title has up to 255 characters (code points), a message up to 10,000, a key up to 255."},
		{name: "verbatim", on: contract.Method.Writes, check: textsAreVerbatim,
			sentence: "Texts are returned as they were sent."},
		{name: "component-elsewhere", on: create, check: componentIsOnThePage,
			sentence: "INVALID_ARGUMENT naming `component_ids` if one is not on the given page."},
		{name: "adds", on: update, check: updateIsAdded,
			sentence: "AddIncidentUpdate adds an update to the timeline and gives the incident the update's status, whatever " +
				"it was."},
		{name: "resolves", on: update, check: secondResolutionKeepsTime,
			sentence: "The status resolved sets `resolved_at`, unless it is already set."},
		{name: "reopens", on: update, check: anotherStatusReopens,
			sentence: "Any status other than resolved clears `resolved_at`."},
		{name: "room", on: update, check: incidentHasRoom,
			sentence: "An incident has room for updates with 1 MiB of texts."},
		{name: "open-incidents", on: create, check: manyIncidentsAreOpen, sentence: "A team may have 1,000 open incidents."},
		{name: "audited", on: contract.Method.Writes, check: writeIsAudited,
			sentence: "A write has an audit entry, which names the actor."},
	}
}

// incidentsAreOfThePage compares the incidents of the page with those of the whole list that are
// attached to it.
func incidentsAreOfThePage(p *probe) {
	var got []*incidentv1.Incident
	retryOnChange(func() []string {
		got = call[*incidentv1.ListStatusPageIncidentsResponse](p, listStatusPageIncidents, nil).GetIncidents()
		return texts(got)
	}, func([]string) {
		require(len(got) <= contract.MaxPageSize, "at most 100 incidents", "%d incidents", len(got))
		want := p.attached(p.resource())
		must(sameList("the incidents in ListIncidents that are attached to the page", idsOf(want), idsOf(got)))
		for i := range want {
			must(sameMessage("as in ListIncidents, incident "+want[i].GetId()+" has", want[i], got[i]))
		}
		needs(slices.ContainsFunc(want, func(i *incidentv1.Incident) bool { return i.GetStatus() == resolved }),
			"a resolved incident on a status page of team %s", p.own.ID)
	})
}

// attached returns the newest incidents of the whole list that are attached to a page, at most 100.
func (p *probe) attached(page string) (attached []*incidentv1.Incident) {
	cursor, followed := "", map[string]bool{}
	for {
		require(!followed[cursor], "a cursor once in a walk of ListIncidents", "the cursor %q again", cursor)
		followed[cursor] = true
		response := call[*incidentv1.ListIncidentsResponse](p, listIncidents, fields{"cursor": cursor})
		for _, incident := range response.GetIncidents() {
			if incident.GetStatusPageId() == page {
				attached = append(attached, incident)
			}
		}
		if cursor = response.GetNextCursor(); cursor == "" || len(attached) >= contract.MaxPageSize {
			return attached[:min(len(attached), contract.MaxPageSize)]
		}
	}
}

// incidentIsCreated creates an incident with each status, and with each impact.
func incidentIsCreated(p *probe) {
	for i, status := range statuses() {
		p.expectCreated(fields{"status": status, "impact": i + 1})
	}
}

func statuses() []incidentv1.IncidentStatus {
	return []incidentv1.IncidentStatus{investigating, identified, monitoring, resolved}
}

func (p *probe) expectCreated(changes fields) {
	r := as[*incidentv1.CreateIncidentRequest](p.request(changes))
	response, err := p.send(p.ctx, r)
	must(err)
	created := as[*incidentv1.CreateIncidentResponse](response).GetIncident()
	must(sameMessage("CreateIncident returns", &incidentv1.Incident{
		Id: created.GetId(), Title: r.GetTitle(), Status: r.GetStatus(), Impact: r.GetImpact(),
		StartedAt: created.GetCreatedAt(), CreatedAt: created.GetCreatedAt(),
		ResolvedAt: resolvedAt(r.GetStatus(), created.GetCreatedAt()),
	}, created))
	p.expectNow("created_at", created.GetCreatedAt())
	state := p.timeline(created.GetId())
	must(sameMessage("GetIncident returns", created, state.GetIncident()))
	updates := state.GetUpdates()
	require(len(updates) == 1, "1 update in the timeline", "%d", len(updates))
	expectUpdate("the timeline is", r.GetStatus(), r.GetMessage(), updates[0])
	n := strings.Count(strings.Join(messageIDs(p.of(listIncidents).call(nil)), " "), created.GetId())
	require(n == 1, "the incident 1 time on the first page of ListIncidents", "%d times", n)
	p.update(created.GetId(), nil)
}

// resolvedAt returns the time of a resolution by an update with the status.
func resolvedAt(status incidentv1.IncidentStatus, at *timestamppb.Timestamp) *timestamppb.Timestamp {
	if status != resolved {
		return nil
	}
	return at
}

// expectNow compares a time of a write with this clock.
func (p *probe) expectNow(name string, got *timestamppb.Timestamp) {
	now := p.Clock()
	want := fmt.Sprintf("%s within %v of %s, the time here", name, skew, now.Format(time.RFC3339))
	require(now.Sub(got.AsTime()).Abs() <= skew, want, "%s", timeText(got))
}

func createdAsResolved(p *probe) {
	created := p.create(nil)
	require(created.GetResolvedAt() != nil && created.GetResolvedAt().AsTime().Equal(created.GetCreatedAt().AsTime()),
		"resolved_at "+timeText(created.GetCreatedAt())+", the time of creation", "resolved_at %s",
		timeText(created.GetResolvedAt()))
}

func incidentIsAttached(p *probe) {
	page := p.pageID()
	expectID(page, p.create(fields{"status_page_id": page, "component_ids": p.component()}).GetStatusPageId())
}

// longestIsStored uses characters of four bytes, which are two units in UTF-16.
func longestIsStored(p *probe) {
	p.expectStored(fields{
		"message": strings.Repeat("\U0001F525", maxMessage), "title": strings.Repeat("\U0001F525", maxTitle),
		"idempotency_key": uuid.NewString() + strings.Repeat("~", maxKey-len(uuid.Nil.String())),
	})
}

// textsAreVerbatim uses characters that stores and libraries escape, replace or normalize.
func textsAreVerbatim(p *probe) {
	const special = `<b>"a' & b\\ %s $1 {{c}} --; ß İ é ` + "e\u0301 \u202e \u200d \U0001F9D1\u200d\U0001F692  end."
	p.expectStored(fields{"message": special + "\n\n\tnext line", "title": special})
}

// expectStored writes texts, of which only the message is one of an update, and compares them with
// those of the incident.
func (p *probe) expectStored(longest fields) {
	first := longest
	if p.method.Resource() != "" {
		longest = maps.Clone(longest)
		delete(longest, "title")
		first = nil
	}
	id := p.create(first).GetId()
	if p.method.Resource() != "" {
		p.update(id, longest)
	}
	state := p.timeline(id)
	require(len(state.GetUpdates()) > 0, "a timeline with updates", "none")
	for name, got := range map[protoreflect.Name]string{
		"title": state.GetIncident().GetTitle(), "message": state.GetUpdates()[len(state.GetUpdates())-1].GetMessage(),
	} {
		want, sent := longest[name].(string)
		require(!sent || got == want, valueText(name, want)+", as sent", "%s", valueText(name, got))
	}
}

// componentIsOnThePage uses a component of another page of the team.
func componentIsOnThePage(p *probe) {
	own := p.pageID()
	for _, page := range messageIDs(p.of(listStatusPages).call(nil)) {
		components := call[*incidentv1.GetStatusPageResponse](p, getStatusPage,
			fields{"status_page_id": page}).GetComponents()
		if page == own || len(components) == 0 {
			continue
		}
		_, err := p.attempt(fields{"status_page_id": own, "component_ids": components[0].GetId()})
		must(expectViolations(err, fmt.Sprintf("the component %s of the page %s", components[0].GetId(), page),
			"component_ids"))
		return
	}
	must(lacks("a component of team %s on another page", p.own.ID))
}

// updateIsAdded adds updates so that each status follows each one, also itself.
func updateIsAdded(p *probe) {
	incident, count := p.create(nil).GetId(), 1
	add := func(status incidentv1.IncidentStatus) {
		message := fmt.Sprintf("Update %d.", count)
		added := p.update(incident, fields{"status": status, "message": message})
		count++
		expectUpdate("AddIncidentUpdate returns", status, message, added)
		p.expectNow("created_at", added.GetCreatedAt())
		state := p.timeline(incident)
		updates := state.GetUpdates()
		require(len(updates) == count, fmt.Sprintf("%d updates in the timeline", count), "%d", len(updates))
		must(sameMessage("the timeline ends with", added, updates[count-1]))
		got := state.GetIncident()
		require(got.GetStatus() == status && (got.GetResolvedAt() != nil) == (status == resolved),
			fmt.Sprintf("the status %v of the incident, and resolved_at only if that is resolved", status),
			"%v and resolved_at %s", got.GetStatus(), timeText(got.GetResolvedAt()))
	}
	must(errors.Join(try(func() {
		for _, before := range statuses() {
			for _, status := range statuses() {
				add(before)
				add(status)
			}
		}
	}), try(func() { p.update(incident, nil) })))
}

// incidentHasRoom adds updates of the maximum length.
func incidentHasRoom(p *probe) {
	incident, message := p.create(nil).GetId(), strings.Repeat("x", maxMessage)
	for n := range (1 << 20) / maxMessage {
		_, err := p.attempt(fields{"incident_id": incident, "message": message})
		require(err == nil, fmt.Sprintf("update %d of 10,000 bytes", n+1), "%s", resultText(err))
	}
}

// manyIncidentsAreOpen opens as many incidents as the team may have at least, and resolves them.
func manyIncidentsAreOpen(p *probe) {
	const most, calls, counted = 1000, 8, 1000
	open, more := 0, ""
	for response := range p.of(listIncidents).pages(counted, nil) {
		more = text(response.ProtoReflect(), "next_cursor")
		for _, incident := range as[*incidentv1.ListIncidentsResponse](response).GetIncidents() {
			if incident.GetResolvedAt() == nil {
				open++
			}
		}
	}
	needs(more == "", "a team with at most %d incidents, of which the open ones can be counted",
		counted*contract.MaxPageSize)
	var group errgroup.Group
	group.SetLimit(calls)
	ids := make([]string, max(0, most-open))
	for i := range ids {
		group.Go(func() error {
			return try(func() { ids[i] = p.create(fields{"status": investigating}).GetId() })
		})
	}
	err := group.Wait()
	for _, id := range ids {
		if id != "" {
			group.Go(func() error { return try(func() { p.update(id, nil) }) })
		}
	}
	must(errors.Join(err, group.Wait()))
}

// expectUpdate checks the content of an update.
func expectUpdate(what string, status incidentv1.IncidentStatus, message string, got *incidentv1.IncidentUpdate) {
	must(sameMessage(what, &incidentv1.IncidentUpdate{
		Id: got.GetId(), Status: status, Message: message, CreatedAt: got.GetCreatedAt(),
	}, got))
}

// states creates an incident, adds an update with each status, and returns the incident after each.
func (p *probe) states(statuses ...incidentv1.IncidentStatus) (after []*incidentv1.Incident) {
	id := p.create(nil).GetId()
	for _, status := range statuses {
		p.update(id, fields{"status": status})
		after = append(after, p.timeline(id).GetIncident())
	}
	return after
}

func secondResolutionKeepsTime(p *probe) {
	after := p.states(monitoring, resolved, resolved)
	first, second := after[1].GetResolvedAt(), after[2].GetResolvedAt()
	require(first != nil, "resolved_at in a resolved incident", "no resolved_at")
	require(after[2].GetStatus() == resolved, "the status "+resolved.String(), "%v", after[2].GetStatus())
	require(proto.Equal(first, second), "resolved_at "+timeText(first)+", as before", "resolved_at %s", timeText(second))
}

func anotherStatusReopens(p *probe) {
	open := p.states(resolved, investigating, resolved)[1]
	require(open.GetResolvedAt() == nil && open.GetStatus() == investigating,
		"the status "+investigating.String()+" and resolved_at absent", "%v and resolved_at %s", open.GetStatus(),
		timeText(open.GetResolvedAt()))
}

// writeIsAudited writes with each status.
func writeIsAudited(p *probe) {
	for _, status := range statuses() {
		incident, want := p.create(fields{"status": status}).GetId(), 1
		if p.method.Resource() != "" {
			p.update(incident, fields{"status": status})
			want++
		}
		err := try(func() { p.expectAudited(incident, want, status) })
		if status != resolved {
			p.update(incident, nil)
		}
		must(err)
	}
}

// expectAudited checks the number of the audit entries of an incident.
func (p *probe) expectAudited(incident string, want int, status incidentv1.IncidentStatus) {
	n := 0
	for _, e := range call[*auditv1.ListAuditEntriesResponse](p, listAuditEntries, nil).GetEntries() {
		if e.GetResourceId() == incident && e.GetActorId() == p.actor.GetTokenId() &&
			e.GetIpAddress() == p.actor.GetIpAddress() {
			n++
			p.expectNow("created_at of the audit entry", e.GetCreatedAt())
		}
	}
	require(n == want, fmt.Sprintf("%d audit entries of the actor on the incident, with the status %v", want, status),
		"%d", n)
}
