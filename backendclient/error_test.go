package backendclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"opsgate/backendclient"
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

func TestCodesAreReturnedUnchanged(t *testing.T) {
	var answer error
	clients := over(t, &backend{getServer: func(context.Context) (*fleetv1.GetServerResponse, error) {
		return &fleetv1.GetServerResponse{}, answer
	}})
	if err := getServer(t, clients); err != nil {
		t.Fatalf("error for OK: %v", err)
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		answer = status.Error(code, "the reason")
		err := getServer(t, clients)
		e := failure(t, err)
		if e.Code != code || errors.Is(err, context.Canceled) || status.Code(err) != code {
			t.Errorf("%v was returned as %v (status %v, by the caller %v)", code, e.Code, status.Code(err), errors.Is(err, context.Canceled))
		}
		if want := "fleet.GetServer: " + code.String() + ": the reason"; err.Error() != want {
			t.Errorf("text %q, want %q", err, want)
		}
		if status.Code(errors.Unwrap(err)) != code {
			t.Errorf("%v wraps %v", code, errors.Unwrap(err))
		}
	}
}

func TestDetailsAreReturned(t *testing.T) {
	err := getServer(t, over(t, failing(t, status.New(codes.InvalidArgument, "no good"),
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "status_page_id", Description: "no such page"},
			{Field: "title", Description: "must not be empty"},
		}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(90 * time.Second)},
		&errdetails.ErrorInfo{Reason: "NO_GOOD", Domain: "ops"},
		&errdetails.Help{}, // ignored
	)))
	e := failure(t, err)
	want := []backendclient.Violation{{"status_page_id", "no such page"}, {"title", "must not be empty"}}
	if len(e.Violations) != 2 || e.Violations[0] != want[0] || e.Violations[1] != want[1] {
		t.Errorf("violations %v, want %v", e.Violations, want)
	}
	if e.RetryAfter != 90*time.Second || e.Reason != "NO_GOOD" {
		t.Errorf("retry after %v, reason %q", e.RetryAfter, e.Reason)
	}
	if !strings.HasSuffix(err.Error(), "no good (NO_GOOD)") {
		t.Errorf("text %q", err)
	}
	if len(status.Convert(err).Details()) != 4 {
		t.Error("the status lost its details")
	}
}

func TestDetailsAreLimited(t *testing.T) {
	violations := make([]*errdetails.BadRequest_FieldViolation, 150)
	for i := range violations {
		violations[i] = &errdetails.BadRequest_FieldViolation{
			Field: strings.Repeat("é", 100), Description: strings.Repeat("x", 511) + "éé",
		}
	}
	err := getServer(t, over(t, failing(t, status.New(codes.InvalidArgument, strings.Repeat("m", 5000)),
		&errdetails.BadRequest{FieldViolations: violations[:75]},
		&errdetails.BadRequest{FieldViolations: violations[75:]},
		&errdetails.ErrorInfo{Reason: strings.Repeat("R", 5000)},
	)))
	e := failure(t, err)
	if len(e.Violations) != 100 {
		t.Fatalf("%d violations, want 100", len(e.Violations))
	}
	for _, v := range e.Violations {
		if v.Field != strings.Repeat("é", 64) || v.Description != strings.Repeat("x", 511) {
			t.Fatalf("field of %d bytes, description of %d bytes", len(v.Field), len(v.Description))
		}
		if !utf8.ValidString(v.Field + v.Description) {
			t.Fatal("a character was cut")
		}
	}
	if len(e.Reason) != 64 || len(err.Error()) > 1200 {
		t.Errorf("reason of %d bytes, text of %d", len(e.Reason), len(err.Error()))
	}
}

func TestRetryAfterIsClamped(t *testing.T) {
	var answer error
	clients := over(t, &backend{getServer: func(context.Context) (*fleetv1.GetServerResponse, error) { return nil, answer }})
	for _, test := range []struct {
		info *durationpb.Duration
		want time.Duration
	}{
		{nil, 0},
		{durationpb.New(0), time.Second},
		{durationpb.New(-time.Minute), time.Second},
		{durationpb.New(time.Millisecond), time.Second},
		{durationpb.New(1500 * time.Millisecond), 1500 * time.Millisecond},
		{durationpb.New(7 * 24 * time.Hour), time.Hour},
		{&durationpb.Duration{Seconds: 1 << 62}, time.Hour},
	} {
		busy, err := status.New(codes.ResourceExhausted, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: test.info})
		testkit.Must(t, err)
		answer = busy.Err()
		if e := failure(t, getServer(t, clients)); e.Code != codes.ResourceExhausted || e.RetryAfter != test.want {
			t.Errorf("%v: %v after %v, want %v", test.info, e.Code, e.RetryAfter, test.want)
		}
	}
}

// A proxy resets a stream to slow the gateway down, not the API client.
func TestAResetStreamIsNotARateLimit(t *testing.T) {
	listener := listen(t, "127.0.0.1:0")
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go resetStreams(conn)
		}
	}()
	clients := dial(t, at(listener.Addr().String()), func(o *backendclient.Options) {
		o.DialOptions = []grpc.DialOption{grpc.WithDisableHealthCheck()}
	})
	if e := failure(t, getServer(t, clients)); e.Code != codes.Unavailable || !strings.Contains(e.Error(), "ENHANCE_YOUR_CALM") {
		t.Errorf("%v: %v", e.Code, e)
	}
}

// resetStreams is an HTTP/2 server that resets each stream with ENHANCE_YOUR_CALM.
func resetStreams(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	_ = framer.WriteSettings()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if headers, ok := frame.(*http2.HeadersFrame); ok {
			_ = framer.WriteRSTStream(headers.StreamID, http2.ErrCodeEnhanceYourCalm)
		}
	}
}

func TestATooLargeRequestIsNotARateLimit(t *testing.T) {
	clients := over(t, &backend{})
	_, err := clients.Fleet.GetServer(t.Context(), &fleetv1.GetServerRequest{ServerId: strings.Repeat("x", 5<<20)})
	if e := failure(t, err); e.Code != codes.Internal || !e.TooLarge {
		t.Errorf("code %v, too large: %v: %v", e.Code, e.TooLarge, err)
	}
}
