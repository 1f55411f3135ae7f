package backendclient_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"opsgate/backendclient"
	"opsgate/internal/testkit"
	"opsgate/internal/timings"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// encoded returns a response with so many bytes of text.
func encoded(t testing.TB, bytes int) []byte {
	t.Helper()
	data, err := proto.Marshal(&fleetv1.GetServerResponse{Server: &fleetv1.Server{Name: strings.Repeat("n", bytes)}})
	testkit.Must(t, err)
	return data
}

// responding returns clients whose calls all get the response. The codec of the call decodes it, as
// in gRPC.
func responding(t testing.TB, response *[]byte, change ...func(*backendclient.Options)) *backendclient.Clients {
	t.Helper()
	return intercepted(t, func(
		_ context.Context, _ string, _, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		for _, option := range options {
			if codec, ok := option.(grpc.ForceCodecV2CallOption); ok {
				return codec.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(*response)}, reply)
			}
		}
		return errors.New("the call has no codec")
	}, change...)
}

// A largeCall is a call with a LargeResponse.
type largeCall struct {
	backendclient.LargeResponse

	timings timings.Timings
	name    int // bytes of the received name
	took    time.Duration
}

// A largeContext is the context of a largeCall.
type largeContext struct {
	context.Context
	call *largeCall
}

func (c largeContext) Value(key any) any {
	switch key.(type) {
	case backendclient.LargeResponseKey:
		return &c.call.LargeResponse
	case timings.ContextKey:
		return &c.call.timings
	}
	return c.Context.Value(key)
}

// do makes the call for a team, with a timeout of one second.
func (l *largeCall) do(t testing.TB, clients *backendclient.Clients, team string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	response, err := clients.Fleet.GetServer(largeContext{ctx, l}, &fleetv1.GetServerRequest{TeamId: team})
	l.took, l.name = time.Since(began), len(response.GetServer().GetName())
	return err
}

func TestLargeResponsesOfATeamWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := runtime.GOMAXPROCS(0) << 20 // as much as all teams together may have at once
		response := encoded(t, size)
		clients := responding(t, &response)
		var first, second, other, third largeCall
		if err := first.do(t, clients, "a"); err != nil || first.name != size {
			t.Fatalf("the first has %d bytes: %v", first.name, err)
		}
		if err := second.do(t, clients, "a"); !isRefused(t, err, backendclient.ReasonTeamOverloaded) || failure(t, err).Code != codes.Unavailable {
			t.Errorf("a second one while the first is made: %v", err)
		}
		if second.took < 900*time.Millisecond || second.timings.Waited(timings.Service) != 0 {
			t.Errorf("it waited for %v, of which %v for the service", second.took, second.timings.Waited(timings.Service))
		}
		if err := other.do(t, clients, "b"); err != nil || other.took != 0 {
			t.Errorf("another team waited for %v: %v", other.took, err)
		}
		if err := call(t, clients); err != nil {
			t.Errorf("a call that makes no response waited: %v", err)
		}
		time.AfterFunc(100*time.Millisecond, first.Done)
		if err := third.do(t, clients, "a"); err != nil || third.took != 100*time.Millisecond || third.name != size {
			t.Errorf("when the first was made, a third one had %d bytes after %v: %v", third.name, third.took, err)
		}
		other.Done()
		other.Done()
		if err := other.do(t, clients, "b"); err != nil || other.took != 0 {
			t.Errorf("after it was made, another one of the team waited for %v: %v", other.took, err)
		}
		response = encoded(t, 10_000)
		if err := second.do(t, clients, "a"); err != nil || second.took != 0 || second.name != 10_000 {
			t.Errorf("a small one waited for %v: %v", second.took, err)
		}
	})
}

// The calls that wait hold their slots, so that their number is bounded.
func TestCallWhoseResponseWaitsHoldsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		response := encoded(t, runtime.GOMAXPROCS(0)<<20)
		clients := responding(t, &response, func(o *backendclient.Options) { o.MaxInFlight = 1 })
		var first, second, third largeCall
		testkit.Must(t, first.do(t, clients, "a"))
		go func() { _ = second.do(t, clients, "a") }()
		synctest.Wait()
		if err := third.do(t, clients, "b"); !isRefused(t, err, backendclient.ReasonOverloaded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestInvalidLargeResponseIsInternal(t *testing.T) {
	response := append(encoded(t, 100_000), "not a message"...)
	clients := responding(t, &response)
	if err := call(t, clients); failure(t, err).Code != codes.Internal {
		t.Errorf("got %v", err)
	}
}
