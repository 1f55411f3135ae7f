package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// A keyCase is a row about idempotency keys: calls with one key, one after the other.
type keyCase struct {
	name, sentence string
	calls          []keyCall
	// executions is how often the write of the last call is executed.
	executions int
}

// A keyCall is one call of a keyCase.
type keyCall struct {
	// what describes the call in a breach.
	what string
	// by returns the probe of another write, with which this call is made; nil means the write of
	// the check.
	by      func(p *probe) *probe
	changes fields
	want    keyOutcome
}

// A keyOutcome is the outcome of a call with an idempotency key.
type keyOutcome int

const (
	executed keyOutcome = iota // a new id, and replayed is not set
	replayed                   // the id of the first call, and replayed is set
	refused                    // INVALID_ARGUMENT naming the key
	invalid                    // INVALID_ARGUMENT
)

func keyCases() []keyCase {
	otherMethod := func(p *probe) *probe { return p.of(nextMethod(p.method, hasKey)) }
	otherActor := &incidentv1.Actor{TokenId: uuid.NewString(), IpAddress: "2001:db8::1", RequestId: "another"}
	first := keyCall{what: "a new key", want: executed}
	withoutKey := keyCall{what: "a call without a key", changes: fields{"idempotency_key": ""}, want: executed}
	return []keyCase{
		{name: "idempotent-replay", calls: []keyCall{first, {what: "the same request with its key", want: replayed}},
			executions: 1,
			sentence: "The same key with the same request changes nothing and returns the stored response, with `replayed` " +
				"set."},
		{name: "idempotent-actor", sentence: "Two requests are the same if all fields but `actor` are equal.", executions: 1,
			calls: []keyCall{first,
				{what: "the same request of another actor", changes: fields{"actor": otherActor}, want: replayed}}},
		{name: "idempotent-other-method", executions: 0,
			calls: []keyCall{
				{what: "a new key", by: otherMethod, want: executed},
				{what: "a key that was used with another method", want: refused},
			},
			sentence: "Keys are shared by all methods: the key of another method is INVALID_ARGUMENT naming `idempotency_key`."},
		{name: "idempotent-other-team", executions: 1, sentence: "Keys belong to the team.",
			calls: []keyCall{
				{what: "a new key", by: (*probe).ofOtherTeam, want: executed},
				{what: "a key that another team has used", want: executed},
			}},
		{name: "idempotent-failure", executions: 1,
			calls: []keyCall{
				{what: "a request without a message", changes: fields{"message": ""}, want: invalid},
				{what: "a key whose first call failed", want: executed},
			},
			sentence: "Failures are not stored: after one, the key can be used as if it were new."},
		{name: "without-key", calls: []keyCall{withoutKey, withoutKey}, executions: 2,
			sentence: "Without a key, a call that is sent twice is executed twice."},
	}
}

// hasKey reports whether requests have an idempotency key.
func hasKey(m contract.Method) bool { return m.HasRequestField("idempotency_key") }

// keyRules returns the rules for methods with idempotency keys.
func keyRules() (rules []rule) {
	for _, c := range keyCases() {
		rules = append(rules, rule{name: c.name, sentence: c.sentence, on: hasKey, check: c.check})
	}
	return append(rules,
		rule{name: "idempotent-other-request", on: hasKey, check: keyIsOfOneRequest,
			sentence: "The same key with another request, in whatever field, is INVALID_ARGUMENT naming `idempotency_key`."},
		rule{name: "idempotent-order", on: named(createIncident), check: keysIgnoreOrder,
			sentence: "Two requests are the same if their `component_ids` are, in any order."},
		rule{name: "idempotent-exact", on: hasKey, check: keysAreExact,
			sentence: "Keys are the same if all of their characters are, up to the last of 255."},
		rule{name: "audited-once", on: hasKey, check: onlyChangesAreAudited,
			sentence: "Neither a replay nor a write that is refused has an audit entry."},
		rule{name: "idempotent-concurrent", on: hasKey, check: concurrentCallsAreExecutedOnce,
			sentence: "While the first call with a key is in progress, others are ABORTED, or wait and are replays."},
		rule{name: "given-up", on: hasKey, check: abandonedCallsAreExecutedOnce,
			sentence: "A call that ended by its deadline or was cancelled, and is repeated with its key, is executed once."},
		rule{name: "idempotent-replay-later", on: hasKey, check: replayIsTheStoredResponse,
			sentence: "A replay is the stored response, also after the incident has changed."},
	)
}

// check makes the calls of the case.
func (c keyCase) check(p *probe) {
	key := uuid.NewString()
	last := p.newWrite()
	var ids []string
	for _, call := range c.calls {
		w := last
		if call.by != nil {
			w = call.by(p).newWrite()
		}
		id, again, err := w.send(p.ctx, fields{"idempotency_key": key}.with(call.changes))
		must(call.breach(ids, id, again, err))
		ids = append(ids, id)
	}
	last.expectExecutions(c.executions)
}

// keyIsOfOneRequest repeats a call with another value in each field.
func keyIsOfOneRequest(p *probe) {
	w, key := p.newWrite(), fields{"idempotency_key": uuid.NewString()}
	_, _, err := w.send(p.ctx, key)
	must(err)
	others := fields{
		"title": "Another", "message": "Another.", "status": identified,
		"impact":         incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR,
		"status_page_id": p.pageID(), "component_ids": p.component(),
		"incident_id": p.create(nil).GetId(), "notify_subscribers": true,
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if p.method.HasRequestField(name) {
			_, _, err := w.send(p.ctx, key.with(fields{name: others[name]}))
			must(expectViolations(err, "a key that was used with another "+string(name), "idempotency_key"))
		}
	}
	w.expectExecutions(1)
}

// keysIgnoreOrder uses two components of one page.
func keysIgnoreOrder(p *probe) {
	ids := p.components()
	needs(len(ids) >= 2, "two components on a status page of team %s", p.own.ID)
	w, key := p.newWrite(), fields{"idempotency_key": uuid.NewString()}
	first, _, err := w.send(p.ctx, key.with(fields{"component_ids": []string{ids[0], ids[1]}}))
	must(err)
	second, again, err := w.send(p.ctx, key.with(fields{"component_ids": []string{ids[1], ids[0]}}))
	require(err == nil && again && first == second,
		"replayed: true, and the id "+first+" for component_ids in another order",
		"replayed: %t, and the id %q, %s", again, second, resultText(err))
}

// keysAreExact uses keys that a store may confuse.
func keysAreExact(p *probe) {
	w, long := p.newWrite(), uuid.NewString()+strings.Repeat("k", maxKey-1-len(uuid.Nil.String()))
	keys := []string{long + "a", long + "A", long + "b", long}
	for _, key := range keys {
		_, again, err := w.send(p.ctx, fields{"idempotency_key": key})
		require(err == nil && !again, "replayed: false for a key of which one character differs", "replayed: %t, %s", again,
			resultText(err))
	}
	w.expectExecutions(len(keys))
}

// onlyChangesAreAudited counts the entries of an actor that makes no other calls.
func onlyChangesAreAudited(p *probe) {
	alone := *p.subject
	alone.actor = &incidentv1.Actor{TokenId: uuid.NewString(), IpAddress: p.actor.GetIpAddress(),
		RequestId: p.actor.GetRequestId()}
	own := *p
	own.subject = &alone
	entries := func() (n int) {
		for _, e := range p.entries("") {
			if e.GetActorId() == alone.actor.GetTokenId() {
				n++
			}
		}
		return n
	}
	w, key := own.newWrite(), fields{"idempotency_key": uuid.NewString()}
	want := entries() + 1
	for _, call := range []struct {
		what    string
		changes fields
		code    codes.Code
	}{
		{"one write", key, codes.OK},
		{"a replay", key, codes.OK},
		{"a key with another request", key.with(fields{"message": "Another."}), codes.InvalidArgument},
		{"a write without a message", fields{"message": ""}, codes.InvalidArgument},
		{"an update of an unknown incident", fields{"incident_id": uuid.NewString()}, codes.NotFound},
	} {
		if _, of := call.changes["incident_id"]; of && !p.method.HasRequestField("incident_id") {
			continue
		}
		_, _, err := w.send(p.ctx, call.changes)
		must(expectCode(call.code, err, call.what))
		got := entries()
		require(got == want, fmt.Sprintf("%d audit entries of the actor after %s", want, call.what), "%d", got)
	}
}

// replayIsTheStoredResponse adds an update between a call and its repetition.
func replayIsTheStoredResponse(p *probe) {
	request := p.request(fields{"idempotency_key": uuid.NewString()})
	first, err := p.send(p.ctx, request)
	must(err)
	incident, ids := text(request.ProtoReflect(), "incident_id"), messageIDs(first)
	require(len(ids) == 1, "1 id in the response", "%d ids: %q", len(ids), ids)
	if incident == "" {
		incident = ids[0]
	}
	p.update(incident, fields{"status": investigating})
	second, err := p.send(p.ctx, request)
	p.update(incident, nil)
	must(err)
	set(first, "replayed", true)
	must(sameMessage("the replay has", first, second))
}

// breach returns a breach if the response is not the wanted one. The ids are those of the calls
// before.
func (c keyCall) breach(ids []string, id string, again bool, err error) error {
	switch c.want {
	case refused:
		return expectViolations(err, c.what, "idempotency_key")
	case invalid:
		return expectCode(codes.InvalidArgument, err, c.what)
	case executed, replayed:
		want, known := "replayed: false, and a new id", slices.Contains(ids, id)
		if c.want == replayed {
			want, known = "replayed: true, and the id "+ids[0], id == ids[0]
		}
		if err != nil {
			return expected(want+" for "+c.what, "%s", resultText(err))
		}
		if wanted := c.want == replayed; again != wanted || known != wanted {
			return expected(want+" for "+c.what, "replayed: %t, and the id %s", again, id)
		}
	}
	return nil
}

// A write is a valid request of a method that writes. It can be sent several times.
type write struct {
	*probe
	request proto.Message
}

func (p *probe) newWrite() write { return write{p, p.request(nil)} }

// send sends the request with changes. It returns the id in the response, and whether the response
// is a replay.
func (w write) send(ctx context.Context, changes fields) (id string, again bool, err error) {
	response, err := w.probe.send(ctx, changes.applyTo(proto.Clone(w.request)))
	if err != nil {
		return "", false, err
	}
	again = get(response.ProtoReflect(), "replayed").Bool()
	ids := messageIDs(response)
	if len(ids) != 1 {
		return "", again, expected("1 id in the response", "%d ids: %q", len(ids), ids)
	}
	return ids[0], again, nil
}

func (w write) expectExecutions(want int) {
	n := w.executions()
	require(n == want, fmt.Sprintf("the write to be executed %d times", want), "%d times", n)
}

// executions returns how often the request was executed.
func (w write) executions() (n int) {
	switch r := w.request.(type) {
	case *incidentv1.CreateIncidentRequest:
		for _, incident := range call[*incidentv1.ListIncidentsResponse](w.probe, listIncidents, nil).GetIncidents() {
			if incident.GetTitle() == r.GetTitle() {
				n++
			}
		}
		return n
	case *incidentv1.AddIncidentUpdateRequest:
		return len(w.timeline(r.GetIncidentId()).GetUpdates()) - 1 // without the first, of the creation
	}
	must(fmt.Errorf("write.executions has no case for %s", w.method))
	return 0
}

// concurrentCallsAreExecutedOnce sends one request several times at once. One call executes it; the
// others are ABORTED or replays.
func concurrentCallsAreExecutedOnce(p *probe) {
	w := p.newWrite()
	const calls = 8
	withKey := fields{"idempotency_key": uuid.NewString()}
	var group errgroup.Group
	var fresh atomic.Int32
	ids := make([]string, calls)
	for i := range calls {
		group.Go(func() error {
			id, again, err := w.send(p.ctx, withKey)
			if status.Code(err) == codes.Aborted {
				return nil
			}
			if err == nil && !again {
				fresh.Add(1)
			}
			if ids[i] = id; err != nil {
				return expected("OK or ABORTED", "%s", resultText(err))
			}
			return nil
		})
	}
	must(group.Wait())
	ids = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(ids))), func(id string) bool { return id == "" })
	require(len(ids) == 1, "the same id in all responses", "%q", ids)
	require(fresh.Load() == 1, "replayed: false in 1 of 8 concurrent calls", "in %d", fresh.Load())
	w.expectExecutions(1)
}

// abandonedCallsAreExecutedOnce abandons calls after different times, so that some end before their
// execution, some during and some after it.
func abandonedCallsAreExecutedOnce(p *probe) {
	byDeadline := func(after time.Duration) (context.Context, func()) {
		ctx, cancel := context.WithTimeout(p.ctx, after)
		return ctx, cancel
	}
	byCancellation := func(after time.Duration) (context.Context, func()) {
		ctx, cancel := context.WithCancel(p.ctx)
		timer := time.AfterFunc(after, cancel)
		return ctx, func() { timer.Stop(); cancel() }
	}
	for _, after := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond,
		100 * time.Millisecond} {
		for _, bound := range []func(time.Duration) (context.Context, func()){byDeadline, byCancellation} {
			w := p.newWrite()
			withKey := fields{"idempotency_key": uuid.NewString()}
			ctx, cancel := bound(after)
			_, _, _ = w.send(ctx, withKey) // it may or may not be executed
			cancel()
			w.sendUntilDone(withKey)
			w.expectExecutions(1)
		}
	}
}

// sendUntilDone sends a request until the service no longer reports that the first call is in
// progress.
func (w write) sendUntilDone(withKey fields) {
	until, cancel := context.WithTimeout(w.ctx, w.Grace)
	defer cancel()
	const between = 20 * time.Millisecond
	for {
		_, _, err := w.send(w.ctx, withKey)
		if status.Code(err) != codes.Aborted {
			must(err)
			return
		}
		require(wait(until, between) == nil, fmt.Sprintf("an abandoned call to end within %v", w.Grace), "%s",
			resultText(err))
	}
}
