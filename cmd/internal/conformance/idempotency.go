package conformance

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// A write is a method that takes idempotency keys.
type write struct {
	method string
	// request returns a valid request, which names the resource with the id if the method names one.
	request func(s *subject, team, id string) proto.Message
	// prepare returns a new operation of the team.
	prepare func(ctx context.Context, s *subject, team string) (operation, error)
}

// An operation is a write that may be sent several times.
type operation struct {
	request func(v variant) proto.Message
	// executions returns how often the write was executed.
	executions func(ctx context.Context) (int, error)
}

// A variant is a variation of the request of an operation.
type variant struct {
	key          string
	actor        *incidentv1.Actor
	otherMessage bool // another message
	noMessage    bool // no message
}

func (v variant) message(text string) string {
	switch {
	case v.noMessage:
		return ""
	case v.otherMessage:
		return text + " And more."
	}
	return text
}

func writes() []write {
	return []write{
		{method: createIncident, request: func(s *subject, team, _ string) proto.Message {
			return s.newIncident(team, "any call")
		}, prepare: func(_ context.Context, s *subject, team string) (operation, error) {
			r := s.newIncident(team, "once")
			return operation{
				request: func(v variant) proto.Message {
					r := proto.CloneOf(r)
					r.IdempotencyKey, r.Actor, r.Message = v.key, v.actor, v.message(r.GetMessage())
					return r
				},
				executions: func(ctx context.Context) (n int, err error) {
					newest, err := s.incident.ListIncidents(ctx, &incidentv1.ListIncidentsRequest{TeamId: team, PageSize: contract.MaxPageSize})
					for _, incident := range newest.GetIncidents() {
						if incident.GetTitle() == r.GetTitle() {
							n++
						}
					}
					return n, err
				},
			}, nil
		}},
		{method: addIncidentUpdate, request: func(s *subject, team, id string) proto.Message {
			return s.newUpdate(team, id)
		}, prepare: func(ctx context.Context, s *subject, team string) (operation, error) {
			incident, err := s.create(ctx, s.newIncident(team, "to be updated once"))
			r := s.newUpdate(team, incident.GetId())
			return operation{
				request: func(v variant) proto.Message {
					r := proto.CloneOf(r)
					r.IdempotencyKey, r.Actor, r.Message = v.key, v.actor, v.message(r.GetMessage())
					return r
				},
				executions: func(ctx context.Context) (int, error) {
					state, err := s.timeline(ctx, team, incident.GetId())
					return len(state.GetUpdates()) - 1, err // without the first, of the creation
				},
			}, err
		}},
	}
}

// writeNamed returns the write of a method.
func writeNamed(method string) (write, error) {
	for _, w := range writes() {
		if w.method == method {
			return w, nil
		}
	}
	return write{}, fmt.Errorf("writes() has no request for %s", method)
}

func idempotencyChecks() []Check {
	var checks []Check
	all := writes()
	for i, w := range all {
		other := all[(i+1)%len(all)]
		for _, c := range []Check{
			{
				Name: "idempotent-replay", run: w.replays,
				Sentence: "The same key with the same request changes nothing and returns the stored response, with `replayed` set.",
			},
			{
				Name: "idempotent-actor", run: w.replaysToOtherActor,
				Sentence: "Two requests are the same if all fields but `actor` are equal.",
			},
			{
				Name: "idempotent-other-request", run: w.refusesAnotherRequest,
				Sentence: "The same key with another request is INVALID_ARGUMENT naming `idempotency_key`.",
			},
			{
				Name: "idempotent-other-method", run: func(ctx context.Context, s *subject) error { return w.refusesKeyOf(ctx, s, other) },
				Sentence: "Keys are shared by all methods: the key of another method is INVALID_ARGUMENT naming `idempotency_key`.",
			},
			{
				Name: "idempotent-other-team", run: w.separatesTeams,
				Sentence: "Keys belong to the team.",
			},
			{
				Name: "idempotent-failure", run: w.acceptsKeyAfterFailure,
				Sentence: "Failures are not stored: after one, the key can be used as if it were new.",
			},
			{
				Name: "idempotent-concurrent", run: w.executesConcurrentCallsOnce,
				Sentence: "While the first call with a key is in progress, others are ABORTED; one of several concurrent calls is executed.",
			},
			{
				Name: "without-key", run: w.repeatsWithoutKey,
				Sentence: "Without a key, a call that is sent twice is executed twice.",
			},
			{
				Name: "given-up", run: w.executesAbandonedCallsOnce,
				Sentence: "A call that ended by its deadline or was cancelled, and is repeated with its key, is executed once.",
			},
		} {
			c.Name, c.Writes = w.method+"/"+c.Name, true
			checks = append(checks, c)
		}
	}
	return checks
}

// send sends a request and returns the id in the response, and whether the response is a replay.
func (w write) send(ctx context.Context, s *subject, o operation, v variant) (id string, replayed bool, err error) {
	if v.actor == nil {
		v.actor = s.actor
	}
	response, err := s.invoke(ctx, w.method, o.request(v))
	if err != nil {
		return "", false, err
	}
	if a, ok := response.(interface{ GetReplayed() bool }); ok {
		replayed = a.GetReplayed()
	}
	ids := messageIDs(response)
	if len(ids) != 1 {
		return "", replayed, expected("1 id in the response", "%d ids: %q", len(ids), ids)
	}
	return ids[0], replayed, nil
}

// first executes a new operation of the first team with a new key.
func (w write) first(ctx context.Context, s *subject) (o operation, key, id string, err error) {
	o, err = w.prepare(ctx, s, s.teams[0].ID)
	if err != nil {
		return o, "", "", err
	}
	key = uuid.NewString()
	id, replayed, err := w.send(ctx, s, o, variant{key: key})
	if err == nil && replayed {
		err = expected("replayed: false, at the first call", "replayed: true")
	}
	return o, key, id, err
}

func (w write) replays(ctx context.Context, s *subject) error {
	return w.repeats(ctx, s, nil)
}

func (w write) replaysToOtherActor(ctx context.Context, s *subject) error {
	return w.repeats(ctx, s, &incidentv1.Actor{TokenId: uuid.NewString(), IpAddress: "2001:db8::1", RequestId: "another"})
}

func (w write) repeats(ctx context.Context, s *subject, actor *incidentv1.Actor) error {
	o, key, first, err := w.first(ctx, s)
	if err != nil {
		return err
	}
	again, replayed, err := w.send(ctx, s, o, variant{key: key, actor: actor})
	if err != nil {
		return expected("the stored response of "+first, "%s", resultText(err))
	}
	if again != first || !replayed {
		return expected("replayed: true, and the id "+first, "replayed: %t, and the id %s", replayed, again)
	}
	return o.mustBeExecuted(ctx, 1)
}

func (o operation) mustBeExecuted(ctx context.Context, want int) error {
	n, err := o.executions(ctx)
	if err == nil && n != want {
		err = expected(fmt.Sprintf("the write to be executed %d times", want), "%d times", n)
	}
	return err
}

func (w write) refusesAnotherRequest(ctx context.Context, s *subject) error {
	o, key, _, err := w.first(ctx, s)
	if err != nil {
		return err
	}
	_, _, err = w.send(ctx, s, o, variant{key: key, otherMessage: true})
	if err := expectViolations(err, "a key that was used with another message", "idempotency_key"); err != nil {
		return err
	}
	return o.mustBeExecuted(ctx, 1)
}

func (w write) refusesKeyOf(ctx context.Context, s *subject, other write) error {
	_, key, _, err := other.first(ctx, s)
	if err != nil {
		return err
	}
	o, err := w.prepare(ctx, s, s.teams[0].ID)
	if err != nil {
		return err
	}
	_, _, err = w.send(ctx, s, o, variant{key: key})
	return expectViolations(err, "a key that was used with "+other.method, "idempotency_key")
}

func (w write) separatesTeams(ctx context.Context, s *subject) error {
	_, key, first, err := w.first(ctx, s)
	if err != nil {
		return err
	}
	o, err := w.prepare(ctx, s, s.teams[1].ID)
	if err != nil {
		return err
	}
	id, replayed, err := w.send(ctx, s, o, variant{key: key})
	want := "replayed: false, and an id other than " + first + ", for a key that another team has used"
	switch {
	case err != nil:
		return expected(want, "%s", resultText(err))
	case replayed || id == first:
		return expected(want, "replayed: %t, and the id %s", replayed, id)
	}
	return o.mustBeExecuted(ctx, 1)
}

func (w write) acceptsKeyAfterFailure(ctx context.Context, s *subject) error {
	o, err := w.prepare(ctx, s, s.teams[0].ID)
	if err != nil {
		return err
	}
	key := uuid.NewString()
	_, _, err = w.send(ctx, s, o, variant{key: key, noMessage: true})
	if err := expectCode(codes.InvalidArgument, err, "a request without a message"); err != nil {
		return err
	}
	_, replayed, err := w.send(ctx, s, o, variant{key: key})
	switch {
	case err != nil:
		return expected("OK for a key whose first call failed", "%s", resultText(err))
	case replayed:
		return expected("replayed: false, for a key whose first call failed", "replayed: true")
	}
	return o.mustBeExecuted(ctx, 1)
}

// executesConcurrentCallsOnce sends one request several times at once. One call executes it; the others are ABORTED or replays.
func (w write) executesConcurrentCallsOnce(ctx context.Context, s *subject) error {
	o, err := w.prepare(ctx, s, s.teams[0].ID)
	if err != nil {
		return err
	}
	const calls = 8
	key := uuid.NewString()
	ids := make([]string, calls)
	fresh := make([]bool, calls)
	var group errgroup.Group
	for i := range calls {
		group.Go(func() error {
			id, replayed, err := w.send(ctx, s, o, variant{key: key})
			if ids[i], fresh[i] = id, err == nil && !replayed; err == nil || status.Code(err) == codes.Aborted {
				return nil
			}
			return expected("OK or ABORTED", "%s", resultText(err))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	n, first := 0, ""
	for i, id := range ids {
		if fresh[i] {
			n++
		}
		if id != "" && first != "" && id != first {
			return expected("the same id in all responses: "+first, "%s", id)
		}
		first = cmp.Or(first, id)
	}
	if n != 1 {
		return expected("replayed: false in 1 of 8 concurrent calls", "in %d", n)
	}
	return o.mustBeExecuted(ctx, 1)
}

func (w write) repeatsWithoutKey(ctx context.Context, s *subject) error {
	o, err := w.prepare(ctx, s, s.teams[0].ID)
	if err != nil {
		return err
	}
	for range 2 {
		_, replayed, err := w.send(ctx, s, o, variant{})
		if err != nil {
			return err
		}
		if replayed {
			return expected("replayed: false, without a key", "replayed: true")
		}
	}
	return o.mustBeExecuted(ctx, 2)
}

// executesAbandonedCallsOnce abandons calls after different times, so that some end before their execution, some during and some after it.
func (w write) executesAbandonedCallsOnce(ctx context.Context, s *subject) error {
	for _, after := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		byDeadline := func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, after) }
		byCancellation := func() (context.Context, context.CancelFunc) {
			bounded, cancel := context.WithCancel(ctx)
			timer := time.AfterFunc(after, cancel)
			return bounded, func() { timer.Stop(); cancel() }
		}
		for _, bound := range []func() (context.Context, context.CancelFunc){byDeadline, byCancellation} {
			o, err := w.prepare(ctx, s, s.teams[0].ID)
			if err != nil {
				return err
			}
			key := uuid.NewString()
			bounded, cancel := bound()
			_, _, _ = w.send(bounded, s, o, variant{key: key}) // it may or may not be executed
			cancel()
			if err := w.sendUntilDone(ctx, s, o, key); err != nil {
				return err
			}
			if err := o.mustBeExecuted(ctx, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendUntilDone sends a request until the service no longer reports that the first call is in progress.
func (w write) sendUntilDone(ctx context.Context, s *subject, o operation, key string) error {
	until, cancel := context.WithTimeout(ctx, s.grace)
	defer cancel()
	for {
		_, _, err := w.send(ctx, s, o, variant{key: key})
		if err == nil || status.Code(err) != codes.Aborted {
			return err
		}
		const between = 20 * time.Millisecond
		if wait(until, between) != nil {
			return expected(fmt.Sprintf("an abandoned call to end within %v", s.grace), "%s", resultText(err))
		}
	}
}
