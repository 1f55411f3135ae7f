package backendclient_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

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

// A pipeListener accepts connections by net.Pipe. Those of bufconn begin with a timer of no
// duration, at which the race detector can crash in a bubble of synctest.
type pipeListener struct {
	net.Listener // nil

	dialed chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{dialed: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.dialed <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inBubble returns connected clients of processes, over gRPC without a network, so that only
// waiting advances the clock. They send probes.
func inBubble(t testing.TB, processes []*process, change ...func(*backendclient.Options)) *backendclient.Clients {
	t.Helper()
	listeners, addresses := make(map[string]*pipeListener), make([]string, len(processes))
	for i, p := range processes {
		addresses[i] = fmt.Sprintf("process-%d:1", i)
		listener, server := newPipeListener(), grpc.NewServer(grpc.WaitForHandlers(true))
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
			return listeners[address].dial(ctx)
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
