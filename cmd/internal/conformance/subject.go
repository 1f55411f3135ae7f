package conformance

import (
	"context"
	"crypto/tls"
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

// A subject holds the services under test and the fixtures.
type subject struct {
	teams            [2]Team
	revoked          []byte
	now              func() time.Time
	heartbeatTimeout time.Duration
	grace            time.Duration
	// actor is the actor of writes.
	actor *incidentv1.Actor

	conns      map[string]grpc.ClientConnInterface
	rawClients map[string]*rawClient
	close      func() error
}

// newSubject creates the clients. It makes no call.
func newSubject(o Options) (*subject, error) {
	s := &subject{
		teams: o.Fixtures.Teams, revoked: o.Fixtures.RevokedToken, now: o.Clock, heartbeatTimeout: o.HeartbeatTimeout, grace: o.Grace,
		actor: &incidentv1.Actor{TokenId: uuid.NewString(), IpAddress: "192.0.2.1", RequestId: "conformance"},
		conns: map[string]grpc.ClientConnInterface{}, rawClients: map[string]*rawClient{},
		close: func() error { return nil },
	}
	for _, each := range contract.Services() {
		service := each.Name
		address := o.Addresses[service]
		if address == "" {
			s.conns[service] = noConn{service}
			continue
		}
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport(o.TLS)),
			grpc.WithUnaryInterceptor(boundCalls(o.Timeout)), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("prepare calls to %s: %w", service, err), s.close())
		}
		w := newRawClient(address, o.TLS)
		closeOthers := s.close
		s.conns[service], s.rawClients[service] = conn, w
		s.close = func() error { w.close(); return errors.Join(closeOthers(), conn.Close()) }
	}
	return s, nil
}

func transport(settings *tls.Config) credentials.TransportCredentials {
	if settings == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(settings)
}

// boundCalls gives each call a timeout.
func boundCalls(timeout time.Duration) grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
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

// wait waits for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
