package conformance

import (
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
	// prepare makes something of the team to write.
	prepare func(ctx context.Context, s *subject, team string) (deed, error)
}

// A deed is one request, which may be sent several times, and how often it was done.
type deed struct {
	request func(as variant) proto.Message
	done    func(ctx context.Context) (int, error)
}

// A variant is what may differ between two requests for a deed.
type variant struct {
	key     string
	actor   *incidentv1.Actor
	another bool // another message
	invalid bool // no message
}

func (v variant) message(of string) string {
	switch {
	case v.invalid:
		return ""
	case v.another:
		return of + " And more."
	}
	return of
}

func writes() []write {
	return []write{
		{method: createIncident, request: func(s *subject, team, _ string) proto.Message {
			return s.newIncident(team, "any call")
		}, prepare: func(_ context.Context, s *subject, team string) (deed, error) {
			r := s.newIncident(team, "once")
			return deed{
				request: func(as variant) proto.Message {
					r := proto.CloneOf(r)
					r.IdempotencyKey, r.Actor, r.Message = as.key, as.actor, as.message(r.GetMessage())
					return r
				},
				done: func(ctx context.Context) (n int, err error) {
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
		}, prepare: func(ctx context.Context, s *subject, team string) (deed, error) {
			incident, err := s.create(ctx, s.newIncident(team, "to be updated once"))
			r := s.newUpdate(team, incident.GetId())
			return deed{
				request: func(as variant) proto.Message {
					r := proto.CloneOf(r)
					r.IdempotencyKey, r.Actor, r.Message = as.key, as.actor, as.message(r.GetMessage())
					return r
				},
				done: func(ctx context.Context) (int, error) {
					state, err := s.timeline(ctx, team, incident.GetId())
					return len(state.GetUpdates()) - 1, err // but the first
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
	return write{}, fmt.Errorf("no request of %s is known: it is missing in writes()", method)
}

func idempotencyChecks() []Check {
	var checks []Check
	all := writes()
	for i, w := range all {
		other := all[(i+1)%len(all)]
		for _, c := range []Check{
			{
				Name: "idempotent-replay", look: w.isReplayed,
				Sentence: "The same key with the same request answers as the first time, with `replayed` set, and does nothing.",
			},
			{
				Name: "idempotent-actor", look: w.isReplayedToOthers,
				Sentence: "The same request is all fields but `actor`.",
			},
			{
				Name: "idempotent-other-request", look: w.refusesAnotherRequest,
				Sentence: "The same key with another request is INVALID_ARGUMENT naming `idempotency_key`.",
			},
			{
				Name: "idempotent-other-method", look: func(ctx context.Context, s *subject) error { return w.refusesKeyOf(ctx, s, other) },
				Sentence: "Keys are shared by all methods: that of another method is INVALID_ARGUMENT naming `idempotency_key`.",
			},
			{
				Name: "idempotent-other-team", look: w.keepsTeamsApart,
				Sentence: "Keys belong to the team.",
			},
			{
				Name: "idempotent-failure", look: w.forgetsFailures,
				Sentence: "Only successes are remembered.",
			},
			{
				Name: "idempotent-concurrent", look: w.isDoneOnceAtOnce,
				Sentence: "While the first call with a key is still running, ABORTED; of several at once one is done.",
			},
			{
				Name: "without-key", look: w.isDoneAgain,
				Sentence: "Without a key, a call that is made twice is done twice.",
			},
			{
				Name: "given-up", look: w.isDoneOnceWhenGivenUp,
				Sentence: "A call that was given up, by its deadline or by the caller, and is repeated with its key is done once.",
			},
		} {
			c.Name, c.Writes = w.method+"/"+c.Name, true
			checks = append(checks, c)
		}
	}
	return checks
}

// send sends a request and returns the id of what was written, and whether it is a remembered answer.
func (w write) send(ctx context.Context, s *subject, d deed, as variant) (id string, replayed bool, err error) {
	if as.actor == nil {
		as.actor = s.actor
	}
	answer, err := s.invoke(ctx, w.method, d.request(as))
	if err != nil {
		return "", false, err
	}
	if a, ok := answer.(interface{ GetReplayed() bool }); ok {
		replayed = a.GetReplayed()
	}
	ids := identities(answer)
	if len(ids) != 1 {
		return "", replayed, expected("1 id in the response", "%d ids: %q", len(ids), ids)
	}
	return ids[0], replayed, nil
}

// first does a deed of the first team with a new key.
func (w write) first(ctx context.Context, s *subject) (d deed, key, id string, err error) {
	d, err = w.prepare(ctx, s, s.teams[0].ID)
	if err != nil {
		return d, "", "", err
	}
	key = uuid.NewString()
	id, replayed, err := w.send(ctx, s, d, variant{key: key})
	if err == nil && replayed {
		err = expected("replayed: false, at the first call", "replayed: true")
	}
	return d, key, id, err
}

func (w write) isReplayed(ctx context.Context, s *subject) error {
	return w.repeats(ctx, s, nil)
}

func (w write) isReplayedToOthers(ctx context.Context, s *subject) error {
	return w.repeats(ctx, s, &incidentv1.Actor{TokenId: uuid.NewString(), IpAddress: "2001:db8::1", RequestId: "another"})
}

func (w write) repeats(ctx context.Context, s *subject, actor *incidentv1.Actor) error {
	d, key, first, err := w.first(ctx, s)
	if err != nil {
		return err
	}
	again, replayed, err := w.send(ctx, s, d, variant{key: key, actor: actor})
	if err != nil {
		return expected("the stored response of "+first, "%s", ended(err))
	}
	if again != first || !replayed {
		return expected("replayed: true, and the id "+first, "replayed: %t, and the id %s", replayed, again)
	}
	return d.mustBeDone(ctx, 1)
}

func (d deed) mustBeDone(ctx context.Context, want int) error {
	n, err := d.done(ctx)
	if err == nil && n != want {
		err = expected(fmt.Sprintf("the write to be executed %d times", want), "%d times", n)
	}
	return err
}

func (w write) refusesAnotherRequest(ctx context.Context, s *subject) error {
	d, key, _, err := w.first(ctx, s)
	if err != nil {
		return err
	}
	_, _, err = w.send(ctx, s, d, variant{key: key, another: true})
	if err := names(err, "a key that was used with another message", "idempotency_key"); err != nil {
		return err
	}
	return d.mustBeDone(ctx, 1)
}

func (w write) refusesKeyOf(ctx context.Context, s *subject, other write) error {
	_, key, _, err := other.first(ctx, s)
	if err != nil {
		return err
	}
	d, err := w.prepare(ctx, s, s.teams[0].ID)
	if err != nil {
		return err
	}
	_, _, err = w.send(ctx, s, d, variant{key: key})
	return names(err, "a key that was used with "+other.method, "idempotency_key")
}

func (w write) keepsTeamsApart(ctx context.Context, s *subject) error {
	_, key, first, err := w.first(ctx, s)
	if err != nil {
		return err
	}
	d, err := w.prepare(ctx, s, s.teams[1].ID)
	if err != nil {
		return err
	}
	id, replayed, err := w.send(ctx, s, d, variant{key: key})
	want := "replayed: false, and an id other than " + first + ", for a key that another team has used"
	switch {
	case err != nil:
		return expected(want, "%s", ended(err))
	case replayed || id == first:
		return expected(want, "replayed: %t, and the id %s", replayed, id)
	}
	return d.mustBeDone(ctx, 1)
}

func (w write) forgetsFailures(ctx context.Context, s *subject) error {
	d, err := w.prepare(ctx, s, s.teams[0].ID)
	if err != nil {
		return err
	}
	key := uuid.NewString()
	_, _, err = w.send(ctx, s, d, variant{key: key, invalid: true})
	if err := endsWith(codes.InvalidArgument, err, "a request without a message"); err != nil {
		return err
	}
	_, replayed, err := w.send(ctx, s, d, variant{key: key})
	switch {
	case err != nil:
		return expected("OK for a key whose first call failed", "%s", ended(err))
	case replayed:
		return expected("replayed: false, for a key whose first call failed", "replayed: true")
	}
	return d.mustBeDone(ctx, 1)
}

// isDoneOnceAtOnce sends the same request from several sides. One does it; each other is told ABORTED, or is a replay.
func (w write) isDoneOnceAtOnce(ctx context.Context, s *subject) error {
	d, err := w.prepare(ctx, s, s.teams[0].ID)
	if err != nil {
		return err
	}
	const senders = 8
	key := uuid.NewString()
	ids := make([]string, senders)
	fresh := make([]bool, senders)
	var group errgroup.Group
	for i := range senders {
		group.Go(func() error {
			id, replayed, err := w.send(ctx, s, d, variant{key: key})
			if ids[i], fresh[i] = id, err == nil && !replayed; err == nil || status.Code(err) == codes.Aborted {
				return nil
			}
			return expected("OK or ABORTED", "%s", ended(err))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	n, one := 0, ""
	for i, id := range ids {
		if fresh[i] {
			n++
		}
		if id != "" && one != "" && id != one {
			return expected("the same id in all responses: "+one, "%s", id)
		}
		one = max(one, id)
	}
	if n != 1 {
		return expected("replayed: false in 1 of 8 concurrent calls", "in %d", n)
	}
	return d.mustBeDone(ctx, 1)
}

func (w write) isDoneAgain(ctx context.Context, s *subject) error {
	d, err := w.prepare(ctx, s, s.teams[0].ID)
	if err != nil {
		return err
	}
	for range 2 {
		_, replayed, err := w.send(ctx, s, d, variant{})
		if err != nil {
			return err
		}
		if replayed {
			return expected("replayed: false, without a key", "replayed: true")
		}
	}
	return d.mustBeDone(ctx, 2)
}

// isDoneOnceWhenGivenUp gives calls up sooner and later, so that some are given up before they are done, some while, and some after.
func (w write) isDoneOnceWhenGivenUp(ctx context.Context, s *subject) error {
	for _, after := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		byDeadline := func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, after) }
		byCaller := func() (context.Context, context.CancelFunc) {
			bounded, cancel := context.WithCancel(ctx)
			timer := time.AfterFunc(after, cancel)
			return bounded, func() { timer.Stop(); cancel() }
		}
		for _, bound := range []func() (context.Context, context.CancelFunc){byDeadline, byCaller} {
			d, err := w.prepare(ctx, s, s.teams[0].ID)
			if err != nil {
				return err
			}
			key := uuid.NewString()
			bounded, cancel := bound()
			_, _, _ = w.send(bounded, s, d, variant{key: key}) // how it ends is not known, and nobody can say
			cancel()
			if err := w.insist(ctx, s, d, key); err != nil {
				return err
			}
			if err := d.mustBeDone(ctx, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// insist sends a request until the service no longer says that the first call is running, which it must soon.
func (w write) insist(ctx context.Context, s *subject, d deed, key string) error {
	until, cancel := context.WithTimeout(ctx, s.grace)
	defer cancel()
	for {
		_, _, err := w.send(ctx, s, d, variant{key: key})
		if err == nil || status.Code(err) != codes.Aborted {
			return err
		}
		const between = 20 * time.Millisecond
		if wait(until, between) != nil {
			return expected(fmt.Sprintf("an abandoned call to end within %v", s.grace), "%s", ended(err))
		}
	}
}
