package service_test

import (
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	callerID = "b7ad6b7169203331"
)

// notify creates an incident on the page with the metadata traceparent, and returns the traceparent
// of its notification.
func (s *system) notify(own team, traceparents ...string) string {
	s.t.Helper()
	ctx := metadata.NewOutgoingContext(s.t.Context(), metadata.MD{"traceparent": traceparents})
	r := newIncident(own, "Traced")
	r.StatusPageId = &own.page
	_, err := s.incident.CreateIncident(ctx, r)
	testkit.Must(s.t, err)
	return storetest.Column[string](s.t, s.file(), "SELECT traceparent FROM notifications WHERE team_id = ? ORDER BY created_at DESC, id DESC", own.id)[0]
}

func TestNotificationsHaveTheTraceOfTheirRequest(t *testing.T) {
	s, own := startTeam(t)
	const recorded, notRecorded = "00-" + traceID + "-" + callerID + "-01", "00-" + traceID + "-" + callerID + "-00"
	for _, c := range []struct {
		sent []string
		want string
	}{
		{nil, ""},
		{[]string{recorded}, recorded},
		{[]string{notRecorded}, notRecorded},
		{[]string{recorded, recorded}, ""},
		{[]string{"01-" + traceID + "-" + callerID + "-01-more"}, recorded},
		{[]string{recorded + "-more"}, ""},
		{[]string{"00-" + strings.Repeat("0", 32) + "-" + callerID + "-01"}, ""},
		{[]string{strings.Repeat("0", 4000)}, ""},
		{[]string{""}, ""},
	} {
		if got := s.notify(own, c.sent...); got != c.want {
			t.Errorf("sent %.80q: stored %q, want %q", c.sent, got, c.want)
		}
	}
}

// The span has the code of its call.
func TestCallsThatBelongToATraceHaveASpan(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	s := startWith(t, service.Options{
		DataDir: t.TempDir(), TracerProvider: sdk.NewTracerProvider(sdk.WithSyncer(spans)),
	}, &clock{now: start()})
	own := s.team("harbour")
	s.notify(own)
	s.notify(own, "00-"+traceID+"-"+callerID+"-00")
	if got := spans.GetSpans(); len(got) != 0 {
		t.Fatalf("calls that the caller does not record have spans: %v", got.Snapshots())
	}
	stored := s.notify(own, "00-"+traceID+"-"+callerID+"-01")
	got := spans.GetSpans()
	if len(got) != 1 || got[0].Name != "ops.incident.v1.IncidentService/CreateIncident" ||
		got[0].SpanContext.TraceID().String() != traceID || got[0].Parent.SpanID().String() != callerID || !got[0].Parent.IsRemote() {
		t.Fatalf("recorded %v", got.Snapshots())
	}
	if want := "00-" + traceID + "-" + got[0].SpanContext.SpanID().String() + "-01"; stored != want {
		t.Errorf("the notification has %s, not the span of the call %s", stored, want)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+traceID+"-"+callerID+"-01")
	check := func(title string, code codes.Code, name string, failed otelcodes.Code) {
		t.Helper()
		spans.Reset()
		_, err := s.incident.CreateIncident(ctx, newIncident(own, title))
		mustBe(t, err, code)
		got := spans.GetSpans()
		if len(got) != 1 || got[0].Status.Code != failed || got[0].Status.Description != "" ||
			!slices.Contains(got[0].Attributes, attribute.String("rpc.response.status_code", name)) {
			t.Errorf("%v: recorded %v", code, got.Snapshots())
		}
	}
	check("Recorded", codes.OK, "OK", otelcodes.Unset)
	check("", codes.InvalidArgument, "INVALID_ARGUMENT", otelcodes.Unset)
	s.exec("CREATE TRIGGER refuse BEFORE INSERT ON incidents BEGIN SELECT RAISE(ABORT, 'refused'); END")
	check("Fails", codes.Internal, "INTERNAL", otelcodes.Error)
}
