package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
)

const deadlineSentence = "A call whose deadline has passed ends at once, without side effects."

// Timeouts of the calls in deadline checks, measured from the headers. streamDeadline leaves time to open a stream.
const (
	deadline       = 10 * time.Millisecond
	streamDeadline = 100 * time.Millisecond
)

// pauses returns the time between headers and message for each attempt of a deadline check. If the network or the service is slow, both
// may arrive together, before the deadline at the service. So the second attempt waits longer.
func pauses() []time.Duration { return []time.Duration{100 * time.Millisecond, 500 * time.Millisecond} }

// keepsDeadline returns a breach if the method executes a call whose deadline has passed.
func (c call) keepsDeadline(ctx context.Context, s *subject) error {
	if c.Writes() {
		return c.doesNotWriteLate(ctx, s)
	}
	request, err := c.request(s, s.teams[0].ID, s.teams[0].Resources[c.kind()])
	if err != nil {
		return err
	}
	return s.keepsDeadline(ctx, c.String(), request)
}

// doesNotWriteLate returns a breach if the service executes a write after its deadline, even if it then returns DEADLINE_EXCEEDED.
func (c call) doesNotWriteLate(ctx context.Context, s *subject) error {
	w, err := writeNamed(c.String())
	if err != nil {
		return err
	}
	return retryAttempts(func(t timing) error {
		o, err := w.prepare(ctx, s, s.teams[0].ID)
		if err != nil {
			return err
		}
		return errors.Join(s.expectEndAtDeadline(ctx, c.String(), t, o.request(variant{actor: s.actor})), o.mustBeExecuted(ctx, 0))
	})
}

// keepsDeadline sends the message of a call after its deadline. It returns a breach if the service still answers.
func (s *subject) keepsDeadline(ctx context.Context, method string, request proto.Message) error {
	return retryAttempts(func(t timing) error { return s.expectEndAtDeadline(ctx, method, t, request) })
}

// retryAttempts returns the error of the last attempt, or nil if one succeeded.
func retryAttempts(attempt func(t timing) error) (err error) {
	for _, pause := range pauses() {
		if err = attempt(timing{deadline, pause}); err == nil {
			return nil
		}
	}
	return err
}

// endsStreamAtDeadline returns a breach if a stream that is open goes on after its deadline.
func (s *subject) endsStreamAtDeadline(ctx context.Context, method string, request proto.Message) error {
	return s.expectEndAtDeadline(ctx, method, timing{timeout: streamDeadline}, request)
}

// expectEndAtDeadline returns a breach if the service does not end a call because of its deadline.
func (s *subject) expectEndAtDeadline(ctx context.Context, method string, t timing, request proto.Message) error {
	m, err := contract.MethodNamed(method)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, t.pause+t.timeout+s.grace)
	defer cancel()
	code, err := s.rawClients[m.Service()].call(ctx, m, t, request)
	sent := fmt.Sprintf(" (deadline of %v, message sent after %v)", t.timeout, t.pause)
	const want = "DEADLINE_EXCEEDED, or a stream that is reset"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return expected(want+sent, "no end within %v after the deadline", s.grace)
	case err != nil:
		return expected(want+sent, "%v", err)
	case code != codes.DeadlineExceeded && code != codes.Canceled:
		return expected(want+sent, "%s", codeName(code))
	}
	return nil
}
