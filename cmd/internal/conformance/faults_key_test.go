package conformance_test

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

// keyFaults are those of idempotency keys.
func keyFaults() []fault {
	return []fault{
		{
			name: "keys are forgotten", unary: onKeys(func(c *intercepted, _ string) (proto.Message, error) {
				return c.pass(with(c.request, "idempotency_key", ""))
			}),
			fails: []string{
				"*/idempotent-replay", "*/idempotent-actor", "*/idempotent-other-request", "*/idempotent-other-method", "*/idempotent-concurrent",
				"*/given-up",
			},
		},
		{
			name: "keys belong to the actor", fails: []string{"*/idempotent-actor"},
			unary: onKeys(func(c *intercepted, key string) (proto.Message, error) {
				actor := c.request.(interface{ GetActor() *incidentv1.Actor }).GetActor()
				return c.pass(with(c.request, "idempotency_key", key+actor.GetTokenId()))
			}),
		},
		{
			name: "keys belong to the method", fails: []string{"*/idempotent-other-method"},
			unary: onKeys(func(c *intercepted, key string) (proto.Message, error) {
				return c.pass(with(c.request, "idempotency_key", key+c.method.String()))
			}),
		},
		{
			name: "another request is taken for the same", fails: []string{"*/idempotent-other-request", "*/idempotent-other-method"},
			unary: failing(codes.InvalidArgument, func(c *intercepted, err error) (proto.Message, error) {
				if slices.Contains(named(err), "idempotency_key") && len(text(c.request, "idempotency_key")) == lengthOfKeys {
					return c.method.NewResponse(), nil
				}
				return nil, err
			}),
		},
		{name: "keys belong to everybody", fails: []string{"*/idempotent-other-team"}, unary: onKeys(forEverybody)},
		{name: "failures are remembered", fails: []string{"*/idempotent-failure"}, unary: onKeys(rememberFailures)},
		{name: "keys are looked up too early", fails: []string{"*/idempotent-concurrent"}, unary: onKeys(tooEarly)},
		{name: "what was given up is done without its key", fails: []string{"*/given-up"}, unary: onKeys(afterAll)},
		{name: "the same is never done twice", fails: []string{"*/without-key"}, unary: neverTwice},
	}
}

// onKeys handles calls with idempotency keys of the checks, but for wrong ones.
func onKeys(handle func(c *intercepted, key string) (proto.Message, error)) handler {
	return func(c *intercepted) (proto.Message, error) {
		if key := text(c.request, "idempotency_key"); len(key) == lengthOfKeys {
			return handle(c, key)
		}
		return c.pass(c.request)
	}
}

// forEverybody answers with what another team was answered.
func forEverybody(c *intercepted, key string) (proto.Message, error) {
	name := c.state.other(team(c)).ID + c.method.String() + key
	c.state.mu.Lock()
	theirs := c.state.answers[name]
	c.state.mu.Unlock()
	if theirs != nil {
		return theirs, nil
	}
	answer, err := c.pass(c.request)
	if err == nil {
		c.state.mu.Lock()
		defer c.state.mu.Unlock()
		c.state.answers[team(c)+c.method.String()+key] = answer
	}
	return answer, err
}

// rememberFailures answers with the refusal that there was before.
func rememberFailures(c *intercepted, key string) (proto.Message, error) {
	c.state.mu.Lock()
	before := c.state.refusals[key]
	c.state.mu.Unlock()
	if before != nil {
		return nil, before
	}
	answer, err := c.pass(c.request)
	if status.Code(err) == codes.InvalidArgument {
		c.state.mu.Lock()
		defer c.state.mu.Unlock()
		c.state.refusals[key] = err
	}
	return answer, err
}

// tooEarly does each of several calls at once, since none of them finds the key. The first waits until there is another, for a while: most
// are alone.
func tooEarly(c *intercepted, key string) (proto.Message, error) {
	c.state.mu.Lock()
	second, running := c.state.inFlight[key]
	if running {
		delete(c.state.inFlight, key)
		close(second)
		c.state.mu.Unlock()
		return c.pass(with(c.request, "idempotency_key", uuid.NewString()))
	}
	second = make(chan struct{})
	c.state.inFlight[key] = second
	c.state.mu.Unlock()
	select {
	case <-second:
	case <-time.After(40 * time.Millisecond):
	case <-c.ctx.Done():
	}
	c.state.mu.Lock()
	if c.state.inFlight[key] == second {
		delete(c.state.inFlight, key)
	}
	c.state.mu.Unlock()
	return c.pass(c.request)
}

// afterAll does what was given up, and forgets the key. It has all calls given up that have little time.
func afterAll(c *intercepted, _ string) (proto.Message, error) {
	if deadline, ends := c.ctx.Deadline(); !ends || time.Until(deadline) > time.Second {
		return c.pass(c.request)
	}
	<-c.ctx.Done()
	_, _ = c.passIn(context.WithoutCancel(c.ctx), with(c.request, "idempotency_key", ""))
	return nil, status.FromContextError(c.ctx.Err()).Err()
}

// neverTwice answers a request without a key as it did the same request before.
func neverTwice(c *intercepted) (proto.Message, error) {
	if !c.method.Writes() || text(c.request, "idempotency_key") != "" {
		return c.pass(c.request)
	}
	name := c.method.String() + text(c.request, "title") + text(c.request, "incident_id") + text(c.request, "status") + text(c.request, "message")
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if before := c.state.answers[name]; before != nil {
		return before, nil
	}
	answer, err := c.pass(c.request)
	if err == nil {
		c.state.answers[name] = answer
	}
	return answer, err
}
