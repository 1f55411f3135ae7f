package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A timing is the deadline of a call, and the time between its headers and its message.
type timing struct{ timeout, pause time.Duration }

// timings returns the timing of each attempt of a deadline check. If the network or the service is
// slow, headers and message may arrive together, before the deadline at the service. So the second
// attempt waits longer.
func timings() []timing {
	const deadline = 10 * time.Millisecond
	return []timing{{deadline, 3 * deadline}, {deadline, 50 * deadline}}
}

// openStream is the timeout of a stream that is open at its deadline.
const openStream = 100 * time.Millisecond

// endsAtDeadline sends the message of a call after its deadline. The service must neither answer
// nor write.
func endsAtDeadline(p *probe) {
	var err error
	for _, t := range timings() {
		err = try(func() {
			if !p.method.Writes() {
				p.expectEnd(t, p.request(nil))
				return
			}
			w := p.newWrite()
			must(errors.Join(try(func() { p.expectEnd(t, w.request) }), try(func() { w.expectExecutions(0) })))
		})
		if err == nil {
			break
		}
	}
	must(err)
	if p.method.String() == watchRevocations {
		p.expectEnd(timing{timeout: openStream}, p.request(nil))
	}
}

// expectEnd checks that the service ends a call at its deadline.
func (p *probe) expectEnd(t timing, request proto.Message) {
	ctx, cancel := context.WithTimeout(p.ctx, t.pause+t.timeout+p.Grace)
	defer cancel()
	err := p.sendLate(unenforced{ctx, t.timeout}, t.pause, request)
	must(context.Cause(p.ctx))
	want := fmt.Sprintf("DEADLINE_EXCEEDED, or a stream that is reset (deadline of %v, message sent after %v)", t.timeout,
		t.pause)
	require(ctx.Err() == nil, want, "no end within %v after the deadline", p.Grace)
	code := status.Code(err)
	reset := code == codes.Canceled || strings.Contains(status.Convert(err).Message(), "RST_STREAM")
	require(reset || code == codes.DeadlineExceeded, want, "%s", resultText(err))
}

// sendLate opens a stream, and sends the message after a pause. It returns the error with which the
// service ends the call.
func (p *probe) sendLate(ctx context.Context, pause time.Duration, request proto.Message) error {
	stream, err := p.conns[p.method.Service()].NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, p.method.Path())
	if err != nil {
		return err
	}
	if err := wait(ctx, pause); err != nil {
		return err
	}
	_ = stream.SendMsg(request) // if the call has ended, RecvMsg returns its error
	_ = stream.CloseSend()
	for {
		if err := stream.RecvMsg(p.method.NewResponse()); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// An unenforced is a context with a deadline that gRPC sends to the service and does not enforce:
// its end is that of the context in it. gRPC itself ends a call at its deadline, so it would hide a
// service that ignores deadlines.
type unenforced struct {
	context.Context
	timeout time.Duration
}

// Deadline returns the time after the timeout, counted from now: gRPC calls it when it sends the
// headers.
func (u unenforced) Deadline() (time.Time, bool) { return time.Now().Add(u.timeout), true }

// wait waits for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
