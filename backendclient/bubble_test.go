package backendclient_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"opsgate/backendclient"
	"opsgate/internal/testkit/grpctest"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// A process answers all calls of the fleet service in a synctest bubble.
type process struct {
	fleetv1.UnimplementedFleetServiceServer

	answer func(ctx context.Context, team string) (*fleetv1.GetServerResponse, error)
}

func (p *process) GetServer(ctx context.Context, r *fleetv1.GetServerRequest) (*fleetv1.GetServerResponse, error) {
	return p.answer(ctx, r.GetTeamId())
}

// ListServers is what probes call.
func (p *process) ListServers(ctx context.Context, _ *fleetv1.ListServersRequest) (*fleetv1.ListServersResponse, error) {
	if _, err := p.answer(ctx, ""); err != nil {
		return nil, err
	}
	return nil, errProbed
}

// inBubble returns connected clients of processes, over gRPC without a network, so that only
// waiting advances the clock. They send probes.
func inBubble(t testing.TB, processes []*process, change ...func(*backendclient.Options)) *backendclient.Clients {
	t.Helper()
	listeners, addresses := make(map[string]*grpctest.Pipe), make([]string, len(processes))
	for i, p := range processes {
		addresses[i] = fmt.Sprintf("process-%d:1", i)
		listener, server := grpctest.NewPipe(), grpc.NewServer(grpc.WaitForHandlers(true))
		listeners[addresses[i]] = listener
		fleetv1.RegisterFleetServiceServer(server, p)
		grpctest.Serve(t, server, listener)
	}
	clients := dial(t, at("static:///"+strings.Join(addresses, ",")), append(change, func(o *backendclient.Options) {
		o.DialOptions = append(o.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return listeners[address].Dial(ctx)
		}))
	})...)
	runProbes(t, clients)
	<-time.After(time.Second) // of the bubble: all are connected
	return clients
}

// oneProcess returns clients of one process.
func oneProcess(
	t testing.TB, answer func(ctx context.Context, team string) (*fleetv1.GetServerResponse, error), change ...func(*backendclient.Options),
) *backendclient.Clients {
	t.Helper()
	return inBubble(t, []*process{{answer: answer}}, change...)
}
