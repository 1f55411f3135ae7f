package service_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"opsgate/cmd/internal/backend/service"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/grpctest"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

func TestIngestListenerRequiresASecret(t *testing.T) {
	s, own := startTeam(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.backend.ServeIngest(ctx, listener, service.IngestOptions{Secrets: []string{"old secret", "new secret"}})
	}()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	testkit.Must(t, err)
	report := func(authorization ...string) error {
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"authorization": authorization})
		_, err := ingestv1.NewIngestServiceClient(conn).ReportMetrics(ctx,
			&ingestv1.ReportMetricsRequest{Items: []*ingestv1.ServerMetrics{s.newSample(own.server, 0)}})
		return err
	}
	for _, wrong := range [][]string{nil, {""}, {"Bearer "}, {"Bearer secret"}, {"Bearer new secret "}, {"Bearer old secretnew secret"},
		{"secret"}, {"new secret"}, {"Basic new secret"}, {" new secret"}} {
		mustBe(t, report(wrong...), codes.Unauthenticated)
	}
	large := &ingestv1.ReportMetricsRequest{Items: []*ingestv1.ServerMetrics{{ServerId: strings.Repeat("x", 1<<20)}}}
	_, err = ingestv1.NewIngestServiceClient(conn).ReportMetrics(t.Context(), large)
	mustBe(t, err, codes.Unauthenticated) // it was not read: it is too large
	if n := s.count("server_metrics"); n != 0 {
		t.Errorf("%d samples of unauthenticated callers", n)
	}
	watch, err := healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	testkit.Must(t, err)
	_, err = watch.Recv()
	mustBe(t, err, codes.Unauthenticated) // it would hold one of the connections
	testkit.Must(t, report("Bearer old secret"))
	testkit.Must(t, report("bearer new secret"))
	_, err = healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: "ops.ingest.v1.IngestService"})
	testkit.Must(t, err)
	_, err = fleetv1.NewFleetServiceClient(conn).ListServers(t.Context(), &fleetv1.ListServersRequest{TeamId: own.id})
	mustBe(t, err, codes.Unauthenticated)
	_, err = ingestv1.NewIngestServiceClient(s.conn).ReportMetrics(t.Context(), &ingestv1.ReportMetricsRequest{})
	mustBe(t, err, codes.Unimplemented) // the gateway's listener has no ingest service
	testkit.Must(t, conn.Close())
	stop()
	testkit.Must(t, <-ended)
}

// Clients without a secret hold no connection for long, and one connection makes few calls at a
// time.
func TestIngestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, err := service.Open(t.Context(), service.Options{DataDir: t.TempDir()})
		testkit.Must(t, err)
		listener := grpctest.NewPipe()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- backend.ServeIngest(ctx, listener, service.IngestOptions{Secrets: []string{"secret"}})
		}()
		connect := func() *http2.SettingsFrame {
			conn, err := listener.Dial(t.Context())
			testkit.Must(t, err)
			framer := http2.NewFramer(conn, conn)
			frame, err := framer.ReadFrame()
			testkit.Must(t, err)
			settings := frame.(*http2.SettingsFrame)
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			_, err = io.WriteString(conn, http2.ClientPreface)
			testkit.Must(t, errors.Join(err, framer.WriteSettings()))
			return settings
		}
		for range 1000 {
			settings := connect()
			streams, _ := settings.Value(http2.SettingMaxConcurrentStreams)
			if metadata, _ := settings.Value(http2.SettingMaxHeaderListSize); streams != 20 || metadata != 16<<10 {
				t.Fatalf("%d calls at a time, with %d bytes of metadata", streams, metadata)
			}
		}
		began := time.Now()
		connect()
		// gRPC closes a connection a minute after it has told the client, if that does not answer.
		if waited := time.Since(began); waited < 5*time.Minute || waited > 6*time.Minute+time.Second {
			t.Errorf("one more connection was accepted after %v", waited)
		}
		stop()
		testkit.Must(t, <-ended)
		testkit.Must(t, errors.Join(listener.Close(), backend.Close()))
	})
}
