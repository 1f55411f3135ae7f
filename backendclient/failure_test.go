package backendclient_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"opsgate/backendclient"
	"opsgate/backendclient/breaker"
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// overHTTP2 returns clients of an HTTP/2 handler, which can violate the gRPC protocol.
func overHTTP2(t *testing.T, handler http.HandlerFunc, change ...func(*backendclient.Options)) *backendclient.Clients {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	withoutHealth := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/grpc.health.v1.") { // not supported
			w.Header().Set("Grpc-Status", "12")
			begin(w, nil)
			return
		}
		handler(w, r)
	})
	server := &http.Server{Handler: withoutHealth, Protocols: new(http.Protocols), ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, c)
	}}
	server.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return dial(t, at(listener.Addr().String()), change...)
}

// connection is the key of a request's connection.
type connection struct{}

// message returns a gRPC message with a server whose name has n bytes.
func message(t *testing.T, size int) []byte {
	t.Helper()
	body, err := proto.Marshal(&fleetv1.GetServerResponse{Server: &fleetv1.Server{Name: strings.Repeat("x", size)}})
	testkit.Must(t, err)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// begin sends the header of a gRPC response and a part of its body.
func begin(w http.ResponseWriter, part []byte) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = w.Write(part)
	w.(http.Flusher).Flush()
}

// Each transport failure has a defined code.
func TestCodesOfTransportFailures(t *testing.T) {
	whole := message(t, 1000)
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		code   codes.Code
		shows  string // to the breaker: the "service" fails, a "team" does, or "nothing"
	}{
		{"half an answer, and the connection is cut", func(w http.ResponseWriter, r *http.Request) {
			begin(w, whole[:500])
			_ = r.Context().Value(connection{}).(net.Conn).Close()
		}, codes.Unavailable, "team"},
		{"no answer, and the connection is cut", func(_ http.ResponseWriter, r *http.Request) {
			_ = r.Context().Value(connection{}).(net.Conn).Close()
		}, codes.Unavailable, "service"},
		{"half an answer, and the stream is reset", func(w http.ResponseWriter, _ *http.Request) {
			begin(w, whole[:500])
			panic(http.ErrAbortHandler)
		}, codes.Internal, "team"},
		{"half an answer, and it ends well", func(w http.ResponseWriter, _ *http.Request) {
			begin(w, whole[:500])
			w.Header().Set("Grpc-Status", "0")
		}, codes.Internal, "team"},
		{"a whole answer without a status", func(w http.ResponseWriter, _ *http.Request) { begin(w, whole) }, codes.Internal, "team"},
		{"an answer that is no message", func(w http.ResponseWriter, _ *http.Request) {
			begin(w, []byte{0, 0, 0, 0, 2, 0xff, 0xff})
			w.Header().Set("Grpc-Status", "0")
		}, codes.Internal, "team"},
		{"an answer that is too large", func(w http.ResponseWriter, _ *http.Request) {
			begin(w, message(t, 100_000))
			w.Header().Set("Grpc-Status", "0")
		}, codes.Internal, "nothing"},
		{"an answer that hangs", func(w http.ResponseWriter, r *http.Request) {
			begin(w, whole[:500])
			<-r.Context().Done()
		}, codes.DeadlineExceeded, "team"},
		{"a proxy without a backend", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
		}, codes.Unavailable, "team"},
		{"a proxy that refuses the gateway", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}, codes.PermissionDenied, "service"},
		{"a service that denies the resource", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Grpc-Status", "7")
			begin(w, nil)
		}, codes.PermissionDenied, "nothing"},
		{"a page of HTML", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>"))
		}, codes.Unknown, "team"},
		{"a status that does not exist", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Grpc-Status", "77")
			begin(w, nil)
		}, codes.Unknown, "team"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			clients := overHTTP2(t, test.answer, func(o *backendclient.Options) {
				o.MaxResponseBytes = 50_000
				o.Breaker.MinRequests = 1
				o.Retries.Max = 0
			})
			timeout := time.Minute
			if test.code == codes.DeadlineExceeded {
				timeout = 2 * time.Second // the breaker does not count attempts that had less than 100 ms
			}
			e := failure(t, callOf(t, clients, "a team", timeout))
			if e.Code != test.code || e.Reason != "" {
				t.Errorf("%v (%v), want %v", e.Code, e, test.code)
			}
			if refused := test.shows == "service" && test.code == codes.PermissionDenied; e.Refused != refused {
				t.Errorf("a refusal of the gateway: %v, want %v", e.Refused, refused)
			}
			ofService := breakerOf(clients).State == breaker.Open // and not of the team: that takes more than a failure
			_ = callFor(t, clients, timeout)
			counts := breakerOf(clients).State == breaker.Open
			if ofService != (test.shows == "service") || counts != (test.shows != "nothing") {
				t.Errorf("it counts as a failure: %t, of the service: %t", counts, ofService)
			}
		})
	}
}

// A write that may have been done is retried only with an idempotency key.
func TestAWriteIsNotRepeatedWhenItsConnectionIsCut(t *testing.T) {
	for key, want := range map[string]int64{"": 1, "k": 3} {
		var writes atomic.Int64
		clients := overHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
			writes.Add(1)
			_ = r.Context().Value(connection{}).(net.Conn).Close()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := clients.Incident.CreateIncident(ctx, &incidentv1.CreateIncidentRequest{IdempotencyKey: key})
		cancel()
		if e := failure(t, err); e.Code != codes.Unavailable || writes.Load() != want {
			t.Errorf("key %q: %v after %d writes, want %d", key, e, writes.Load(), want)
		}
	}
}
