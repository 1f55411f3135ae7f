package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// timings returns the timing of each attempt of a deadline check. If the network or the service is slow, headers and message may arrive
// together, before the deadline at the service. So the second attempt waits longer.
func timings() []timing {
	const deadline = 10 * time.Millisecond
	return []timing{{deadline, 100 * time.Millisecond}, {deadline, 500 * time.Millisecond}}
}

// openStream is the timing for a stream that is open at its deadline.
const openStream = 100 * time.Millisecond

// endsAtDeadline sends the message of a call after its deadline. The service must neither answer nor write.
func endsAtDeadline(p *probe) {
	var err error
	for _, t := range timings() {
		err = try(func() {
			if !p.method.Writes() {
				must(p.expectEnd(t, p.request(nil)))
				return
			}
			w := p.newWrite()
			must(errors.Join(p.expectEnd(t, w.request), try(func() { w.expectExecutions(0) })))
		})
		if err == nil {
			break
		}
	}
	must(err)
	if p.method.String() == watchRevocations {
		must(p.expectEnd(timing{timeout: openStream}, p.request(nil)))
	}
}

// expectEnd returns a breach if the service does not end a call because of its deadline.
func (p *probe) expectEnd(t timing, request proto.Message) error {
	ctx, cancel := context.WithTimeout(p.ctx, t.pause+t.timeout+p.grace)
	defer cancel()
	code, err := p.rawClients[p.method.Service()].call(ctx, p.method, t, request)
	want := fmt.Sprintf("DEADLINE_EXCEEDED, or a stream that is reset (deadline of %v, message sent after %v)", t.timeout, t.pause)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return expected(want, "no end within %v after the deadline", p.grace)
	case err != nil:
		return expected(want, "%v", err)
	case code != codes.DeadlineExceeded && code != codes.Canceled:
		return expected(want, "%s", codeName(code))
	}
	return nil
}
