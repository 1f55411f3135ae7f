package service_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/kit/logging/loggingtest"
	"opsgate/cmd/internal/test/testkit"
	"opsgate/proto/contract"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// reflected returns the number of services that a server lists by reflection.
func reflected(t *testing.T, conn *grpc.ClientConn) (int, error) {
	t.Helper()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	testkit.Must(t, err)
	_ = stream.Send(&reflectionv1.ServerReflectionRequest{ // Recv returns why it fails
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	})
	response, err := stream.Recv()
	return len(response.GetListServicesResponse().GetService()), err
}

func TestReflectionIsServedOnlyIfEnabled(t *testing.T) {
	_, err := reflected(t, startSystem(t).conn)
	mustBe(t, err, codes.Unimplemented)

	s := startWith(t, service.Options{DataDir: t.TempDir(), Reflection: true}, &clock{now: start()})
	n, err := reflected(t, s.conn)
	testkit.Must(t, err)
	if n != len(contract.Services())+3 { // health, and reflection in two versions
		t.Errorf("%d services", n)
	}
}

func TestOnlyGivenServicesAreServed(t *testing.T) {
	s := startSystem(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.backend.Serve(ctx, listener, "audit") }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	testkit.Must(t, err)
	_, err = fleetv1.NewFleetServiceClient(conn).ListServers(t.Context(), &fleetv1.ListServersRequest{})
	mustBe(t, err, codes.Unimplemented)
	testkit.Must(t, conn.Close())
	stop()
	testkit.Must(t, <-done)
}

func TestUnknownServiceIsAnError(t *testing.T) {
	s := startSystem(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	err = s.backend.Serve(t.Context(), listener, "audit", "billing")
	if err == nil || !strings.Contains(err.Error(), `"billing"`) {
		t.Errorf("Serve returned %v", err)
	}
	if _, err := listener.Accept(); err == nil {
		t.Error("the listener is open")
	}
}

// The transaction of the call is rolled back.
func TestPanicEndsOnlyItsCall(t *testing.T) {
	s, own := startTeam(t)
	s.clock.broken.Store(true)
	_, err := s.incident.CreateIncident(t.Context(), keyed(own, "key-1"))
	mustBe(t, err, codes.Internal)
	if strings.Contains(err.Error(), "broken") {
		t.Errorf("the caller got %v", err)
	}
	s.clock.broken.Store(false)
	s.create(keyed(own, "key-1"))
	if got := s.count("incidents"); got != 1 {
		t.Errorf("%d incidents", got)
	}
}

// The log has the method and the code of a call, and nothing of its request or response.
func TestLogContainsNoPayload(t *testing.T) {
	var log loggingtest.Buffer
	s := startWith(t, service.Options{
		DataDir: t.TempDir(), Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, &clock{now: start()})
	_, err := s.fleet.ListServers(t.Context(), &fleetv1.ListServersRequest{TeamId: "hunter2"})
	mustBe(t, err, codes.InvalidArgument)
	s.close()
	got := log.String()
	if !strings.Contains(got, "ListServers") || !strings.Contains(got, "InvalidArgument") || strings.Contains(got, "hunter2") {
		t.Errorf("log: %s", got)
	}
}
