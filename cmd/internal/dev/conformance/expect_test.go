package conformance

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/internal/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// Expected and got both name the first difference.
func TestBreachNamesTheFirstDifference(t *testing.T) {
	incident := func(change func(*incidentv1.Incident)) *incidentv1.Incident {
		m := &incidentv1.Incident{Id: "1", Title: "A title", Status: resolved, StartedAt: &timestamppb.Timestamp{Seconds: 1}}
		change(m)
		return m
	}
	same := incident(func(*incidentv1.Incident) {})
	for _, test := range []struct {
		name      string
		err       error
		want, got string
	}{
		{"another row", sameList("rows", []string{"a", "b"}, []string{"a", "c"}), `rows: "b" as row 2 of 2`, `"c" as row 2 of 2`},
		{"a missing row", sameList("rows", []string{"a", "b"}, []string{"a"}), `rows: "b" as row 2 of 2`, `no row 2, only 1`},
		{"one row too many", sameList("rows", []string{"a"}, []string{"a", "b"}), `rows: no row 2, only 1`, `"b" as row 2 of 2`},
		{"a text", sameMessage("it returns", same, incident(func(m *incidentv1.Incident) { m.Title = "A  title" })),
			`it returns title "A title"`, `title "A  title"`},
		{"an enum", sameMessage("it returns", same, incident(func(m *incidentv1.Incident) { m.Status = monitoring })),
			"it returns status INCIDENT_STATUS_RESOLVED", "status INCIDENT_STATUS_MONITORING"},
		{"a time", sameMessage("it returns", same, incident(func(m *incidentv1.Incident) { m.StartedAt.Nanos = 1 })),
			"it returns started_at 1970-01-01T00:00:01Z", "started_at 1970-01-01T00:00:01.000000001Z"},
		{"an optional text", sameMessage("it returns", same, incident(func(m *incidentv1.Incident) { m.StatusPageId = new(string) })),
			"it returns status_page_id absent", `status_page_id ""`},
	} {
		t.Run(test.name, func(t *testing.T) {
			breaches := breachesOf(test.err)
			if len(breaches) != 1 || breaches[0].Expected != test.want || breaches[0].Got != test.got {
				t.Errorf("got %q, want expected %q and got %q", breaches, test.want, test.got)
			}
		})
	}
	if err := sameMessage("it returns", same, incident(func(*incidentv1.Incident) {})); err != nil {
		t.Errorf("equal messages: %v", err)
	}
}

func TestErrorsThatDifferInDetailsDifferInTheReport(t *testing.T) {
	plain := status.New(codes.NotFound, "no such server")
	detailed, err := plain.WithDetails(&errdetails.ErrorInfo{Reason: "OTHER_TEAM"})
	testkit.Must(t, err)
	if got := fullResultText(plain.Err()); got != `NOT_FOUND "no such server"` {
		t.Errorf("without details: %s", got)
	}
	if fullResultText(detailed.Err()) == fullResultText(plain.Err()) {
		t.Error("the details are not in the text")
	}
}
