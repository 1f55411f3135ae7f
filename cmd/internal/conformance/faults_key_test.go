package conformance_test

import (
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

// keyFaults returns faults of idempotency keys.
func keyFaults() []fault {
	return []fault{
		{name: "keys are ignored", unary: onKeys(func(c *intercepted, _ string) (proto.Message, error) {
			return c.pass(with(c.request, "idempotency_key", ""))
		}),
			fails: []string{
				"*/idempotent-replay", "*/idempotent-actor", "*/idempotent-other-request", "*/idempotent-other-method", "*/idempotent-concurrent",
				"*/idempotent-replay-later", "*/given-up",
			}},
		{name: "keys depend on the actor", fails: []string{"*/idempotent-actor"},
			unary: onKeys(func(c *intercepted, key string) (proto.Message, error) {
				actor := c.request.(interface{ GetActor() *incidentv1.Actor }).GetActor()
				return c.pass(with(c.request, "idempotency_key", key+actor.GetTokenId()))
			})},
		{name: "keys depend on the method", fails: []string{"*/idempotent-other-method"},
			unary: onKeys(func(c *intercepted, key string) (proto.Message, error) {
				return c.pass(with(c.request, "idempotency_key", key+c.method.String()))
			})},
		{name: "a key with another request is accepted", fails: []string{"*/idempotent-other-request", "*/idempotent-other-method"},
			unary: accept(codes.InvalidArgument, refusesKey)},
		{name: "keys are shared by all teams", fails: []string{"*/idempotent-other-team"}, unary: onKeys(shareKeys)},
		{name: "failures are stored", fails: []string{"*/idempotent-failure"}, unary: onKeys(storeFailures)},
		{name: "keys are looked up before the transaction", fails: []string{"*/idempotent-concurrent"}, unary: onKeys(lookupEarly)},
		{name: "abandoned calls are executed without their key", fails: []string{"*/given-up"}, unary: onKeys(executeAbandoned)},
		{name: "equal requests without key are executed once", fails: []string{"*/without-key"}, unary: executeOnce},
	}
}

// onKeys handles calls with valid idempotency keys.
func onKeys(handle func(c *intercepted, key string) (proto.Message, error)) handler {
	return func(c *intercepted) (proto.Message, error) {
		if key := text(c.request, "idempotency_key"); len(key) == lengthOfKeys {
			return handle(c, key)
		}
		return c.pass(c.request)
	}
}

// shareKeys returns the response of another team with the same key.
func shareKeys(c *intercepted, key string) (proto.Message, error) {
	name := c.state.other(team(c)).ID + c.method.String() + key
	if before, used := c.state.Load(name); used {
		return before.(proto.Message), nil
	}
	response, err := c.pass(c.request)
	if err == nil {
		c.state.Store(team(c)+c.method.String()+key, response)
	}
	return response, err
}

// storeFailures repeats the error of an earlier call with the key.
func storeFailures(c *intercepted, key string) (proto.Message, error) {
	if before, failed := c.state.Load(key); failed {
		return nil, before.(error)
	}
	response, err := c.pass(c.request)
	if status.Code(err) == codes.InvalidArgument {
		c.state.Store(key, err)
	}
	return response, err
}

// lookupEarly executes two of several concurrent calls, because neither of them finds the key. The first call with a key waits for a second
// one for some time, because most calls are not concurrent.
func lookupEarly(c *intercepted, key string) (proto.Message, error) {
	mine := make(chan struct{})
	first, used := c.state.LoadOrStore(key, mine)
	if !used {
		select {
		case <-mine:
		case <-time.After(400 * time.Millisecond):
		case <-c.ctx.Done():
		}
	}
	const over = "the first call no longer waits"
	if waits := c.state.CompareAndSwap(key, first, over); used && first != over && waits {
		close(first.(chan struct{}))
		return c.pass(with(c.request, "idempotency_key", uuid.NewString()))
	}
	return c.pass(c.request)
}

// executeAbandoned executes calls with a short deadline after it, without their key.
func executeAbandoned(c *intercepted, _ string) (proto.Message, error) {
	if deadline, ends := c.ctx.Deadline(); !ends || time.Until(deadline) > time.Second {
		return c.pass(c.request)
	}
	<-c.ctx.Done()
	_, _ = c.passIn(context.WithoutCancel(c.ctx), with(c.request, "idempotency_key", ""))
	return nil, status.FromContextError(c.ctx.Err()).Err()
}

// executeOnce returns the earlier response to an equal request without a key.
func executeOnce(c *intercepted) (proto.Message, error) {
	if !c.method.Writes() || text(c.request, "idempotency_key") != "" {
		return c.pass(c.request)
	}
	name := c.method.String() + text(c.request, "title") + text(c.request, "incident_id") + text(c.request, "status") + text(c.request, "message")
	if before, executed := c.state.Load(name); executed {
		return before.(proto.Message), nil
	}
	response, err := c.pass(c.request)
	if err == nil {
		c.state.Store(name, response)
	}
	return response, err
}
