package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"opsgate/proto/contract"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// A subject holds the services under test and the options.
type subject struct {
	Options
	// actor is the actor of writes.
	actor *incidentv1.Actor
	conns map[string]grpc.ClientConnInterface // by service
	close func() error
	// listed are the ids that were read, by team and kind, and chosen the one of them for each team
	// and method.
	listed map[string][]string
	chosen map[string]string
}

// newSubject creates the clients. It makes no call.
func newSubject(o Options) (*subject, error) {
	s := &subject{
		Options: o, conns: map[string]grpc.ClientConnInterface{}, close: func() error { return nil },
		listed: map[string][]string{}, chosen: map[string]string{},
		actor: &incidentv1.Actor{TokenId: uuid.NewString(), IpAddress: "192.0.2.1", RequestId: "conformance"},
	}
	transport := insecure.NewCredentials()
	if o.TLS != nil {
		transport = credentials.NewTLS(o.TLS)
	}
	for _, service := range contract.Services() {
		address := o.Addresses[service.Name]
		if address == "" {
			s.conns[service.Name] = noConn{service.Name}
			continue
		}
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport),
			grpc.WithUnaryInterceptor(boundCalls(o.Timeout)),
			grpc.WithNoProxy(), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("prepare calls to %s: %w", service.Name, err), s.close())
		}
		closeOthers := s.close
		s.conns[service.Name] = conn
		s.close = func() error { return errors.Join(closeOthers(), conn.Close()) }
	}
	return s, nil
}

// boundCalls gives each call a timeout.
func boundCalls(timeout time.Duration) grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return invoke(ctx, method, request, reply, conn, options...)
	}
}

// A noConn replaces the connection to a service without address. A check that calls it is skipped.
type noConn struct{ service string }

func (c noConn) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return c.skip() }

func (c noConn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, c.skip()
}

func (c noConn) skip() error { return skip("no address of the %s service was given", c.service) }
