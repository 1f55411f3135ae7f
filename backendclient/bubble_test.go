package backendclient_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"opsgate/backendclient"
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

// inBubble returns connected clients of processes, over gRPC without a network, so that only waiting
// advances the clock. They send probes.
func inBubble(t testing.TB, processes []*process, change ...func(*backendclient.Options)) *backendclient.Clients {
	t.Helper()
	listeners, addresses := make(map[string]*bufconn.Listener), make([]string, len(processes))
	for i, p := range processes {
		addresses[i] = fmt.Sprintf("process-%d:1", i)
		listener, server := bufconn.Listen(1<<20), grpc.NewServer(grpc.WaitForHandlers(true))
		listeners[addresses[i]] = listener
		fleetv1.RegisterFleetServiceServer(server, p)
		served := make(chan error)
		go func() { served <- server.Serve(listener) }()
		t.Cleanup(func() {
			server.Stop()
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		})
	}
	clients := dial(t, at("static:///"+strings.Join(addresses, ",")), append(change, func(o *backendclient.Options) {
		o.DialOptions = append(o.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return listeners[address].DialContext(ctx)
		}))
	})...)
	go func() { _ = clients.RunProbes(t.Context()) }()
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
