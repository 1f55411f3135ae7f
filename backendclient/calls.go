package backendclient

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient/timings"
)

// numCodes is the number of gRPC's codes, OK included.
const numCodes = int(codes.Unauthenticated) + 1

// A call is what is known of a method before anybody calls it.
type call struct {
	service, method string
	reads           bool // it changes nothing, and may be tried again
	guard           *guard

	exemplar  func(context.Context) prometheus.Labels // as in Options
	durations *prometheus.HistogramVec
	// observers are the durations' children by code, found once and kept: to find one by its labels takes longer than all
	// else that we do to a call. They are not made before they are used, as most codes never come.
	observers [numCodes]atomic.Pointer[prometheus.Observer]
}

// observe records how long a call of the method took.
func (c *call) observe(ctx context.Context, code codes.Code, took time.Duration) {
	kept := &c.observers[code]
	observer := kept.Load()
	if observer == nil {
		found := c.durations.WithLabelValues(c.service, c.method, code.String())
		observer = &found
		kept.Store(observer)
	}
	if c.exemplar != nil {
		if labels := c.exemplar(ctx); labels != nil {
			if exemplars, ok := (*observer).(prometheus.ExemplarObserver); ok {
				exemplars.ObserveWithExemplar(took.Seconds(), labels)
				return
			}
		}
	}
	(*observer).Observe(took.Seconds())
}

// calls are all methods of all services by their full names ("/ops.fleet.v1.FleetService/GetServer"). It is not changed
// after it was made.
type calls map[string]*call

func newCalls(o Options, guards map[string]*guard) (calls, error) {
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "opsgate_upstream_request_duration_seconds",
		Help:    "Time of unary calls to the internal services, all attempts together, by service, method and gRPC code.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"service", "method", "code"})
	if err := o.Registerer.Register(durations); err != nil {
		return nil, err
	}
	all := make(calls)
	for _, s := range services() {
		add := func(method string) {
			all["/"+s.description.ServiceName+"/"+method] = &call{
				service: s.name, method: method, reads: reads(method), guard: guards[s.name], durations: durations, exemplar: o.Exemplar,
			}
		}
		for _, m := range s.description.Methods {
			add(m.MethodName)
		}
		for _, m := range s.description.Streams {
			add(m.StreamName)
		}
	}
	return all, nil
}

// measure records what a call took and how it ended.
func (c calls) measure(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	start := time.Now()
	err := invoke(ctx, method, request, reply, cc, options...)
	took := time.Since(start)
	c[method].observe(ctx, status.Code(err), took)
	timings.FromContext(ctx).Add(timings.Service, took)
	return err
}

// describe turns a failure into an *Error.
func (c calls) describe(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if err := invoke(ctx, method, request, reply, cc, options...); err != nil {
		return newError(ctx.Err(), c[method], err)
	}
	return nil
}

// describeStream does for a stream what describe does for a call: when it is opened, and at every message.
func (c calls) describeStream(
	ctx context.Context, description *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, description, cc, method, options...)
	if err != nil {
		return nil, newError(ctx.Err(), c[method], err)
	}
	return &describedStream{ClientStream: stream, call: c[method], gone: ctx.Err}, nil
}

type describedStream struct {
	grpc.ClientStream
	call *call
	gone func() error // the caller's context; the stream's own has ended by the time that an error comes
}

// RecvMsg implements [grpc.ClientStream].
func (s *describedStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err == nil || errors.Is(err, io.EOF) {
		return err // io.EOF is how a stream ends well
	}
	return newError(s.gone(), s.call, err)
}
