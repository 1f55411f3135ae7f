package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
	"opsgate/proto/contract"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

var update = flag.Bool("update", false, "write testdata/views.golden instead of comparing with it")

// viewsFile has the response bodies of all operations, indented for the reader.
const viewsFile = "testdata/views.golden"

// TestViews compares the response of every operation, byte for byte, with testdata/views.golden:
// once with every field of the service's response set, and once without the optional ones. -update
// writes the file; review its diff.
func TestViews(t *testing.T) {
	h := start(t)
	var titles []string
	got := make(map[string]string)
	for _, route := range h.gateway.rows {
		for _, variant := range []struct {
			name string
			sampler
		}{{"all fields", sampler{elements: 2}}, {"without optional fields", sampler{bare: true}}} {
			h.services.on("", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
				return generatedAnswer(ctx, variant.sampler)
			})
			title := route.ID + ", " + variant.name
			titles, got[title] = append(titles, title), viewOf(t, h, route)
		}
	}
	if *update {
		writeGoldenViews(t, titles, got)
		return
	}
	want := goldenViews(t)
	for _, title := range titles {
		if diff := cmp.Diff(want[title], got[title]); diff != "" {
			t.Errorf("%s: the view differs from %s (-update writes it):\n%s", title, viewsFile, diff)
		}
		delete(want, title)
	}
	for title := range want {
		t.Errorf("%s: %s has a view without an operation (-update writes it)", title, viewsFile)
	}
}

// viewOf returns the indented body of a response. The test fails if the body is not compact JSON or
// the response does not match the OpenAPI document.
func viewOf(t *testing.T, h *harness, route Route) string {
	t.Helper()
	got := h.do(t, "full", route.Method, target(route)+validQuery(route), validBody(route)).mustBe(t, 200)
	var compact, indented bytes.Buffer
	if err := json.Compact(&compact, []byte(got.body)); err != nil || compact.String() != got.body {
		t.Errorf("%s: the body is not compact JSON (%v): %s", route.ID, err, got.body)
	}
	testkit.Must(t, json.Indent(&indented, []byte(got.body), "", "  "))
	openapitest.New(t).CheckResponse(t, openapitest.Exchange{
		Request: got.Request, RequestBody: []byte(validBody(route)), Status: got.StatusCode, Header: got.Header, Body: []byte(got.body),
	})
	return indented.String()
}

// The log names the record of a breach: one of 1,000 monitors has to be found.
func TestBreachesNameTheirRecordFieldAndValue(t *testing.T) {
	const other = "57b8778a-86b7-5f8d-8020-94486be24bac"
	now := timestamppb.Now()
	monitors := func(change func(*monitoringv1.Monitor)) *monitoringv1.ListMonitorsResponse {
		bad := &monitoringv1.Monitor{Id: other, Status: 1}
		change(bad)
		return &monitoringv1.ListMonitorsResponse{Monitors: []*monitoringv1.Monitor{{Id: someID, Status: 1}, bad}}
	}
	incident := func(change func(*incidentv1.Incident)) *incidentv1.GetIncidentResponse {
		i := &incidentv1.Incident{Id: other, Status: 1, Impact: 1, StartedAt: now, CreatedAt: now}
		change(i)
		return &incidentv1.GetIncidentResponse{Incident: i}
	}
	command := &fleetv1.ServerCommand{Id: other, CreatedAt: now}
	for _, test := range []struct {
		route  string
		answer proto.Message
		want   string
	}{
		{"v1ListMonitors", monitors(func(m *monitoringv1.Monitor) { m.Status = 99 }),
			`row 2 of 2, id "` + other + `": field "status": 99 is no value of the enum`},
		{"v1ListMonitors", monitors(func(m *monitoringv1.Monitor) { m.Id = "monitor-2" }),
			`row 2 of 2, id "monitor-2": field "id": "monitor-2" is not a UUID in lower case`},
		{"v1ListMonitors", monitors(func(m *monitoringv1.Monitor) { m.UptimePercent = proto.Float64(math.NaN()) }), `field "uptimePercent": NaN is not finite`},
		{"v1ListMonitors", monitors(func(m *monitoringv1.Monitor) { m.LastCheckAt = &timestamppb.Timestamp{} }),
			`field "lastCheckAt": is the zero time, 1970-01-01T00:00:00Z`},
		{"v1ListMonitors", monitors(func(m *monitoringv1.Monitor) { m.LastCheckAt = timestamppb.New(time.Time{}) }),
			`field "lastCheckAt": is the zero time, 0001-01-01T00:00:00Z`},
		{"v1ListMonitorChecks", &monitoringv1.ListMonitorChecksResponse{Checks: []*monitoringv1.MonitorCheck{{Status: 1, CheckedAt: now, LatencyMs: -5}}},
			`row 1 of 1, without id: field "latencyMs": -5 is negative`},
		{"v1ListServerCommands", &fleetv1.ListServerCommandsResponse{Total: -1}, `field "total": -1 is negative`},
		{"v1ListServerCommands", &fleetv1.ListServerCommandsResponse{Commands: slices.Repeat([]*fleetv1.ServerCommand{command}, 21)},
			`21 rows, and 20 were asked for`},
		{"v1GetIncident", incident(func(i *incidentv1.Incident) { i.ResolvedAt = now }), `id "` + other + `": field "resolvedAt": is set in an open incident`},
		{"v1GetIncident", incident(func(i *incidentv1.Incident) { i.StatusPageId = proto.String("") }),
			`id "` + other + `": field "statusPageId": "" is not a UUID in lower case`},
	} {
		h := start(t)
		h.services.on("", func(context.Context, proto.Message) (proto.Message, error) { return test.answer, nil })
		h.get(t, target(rowOf(test.route).Route)).mustFail(t, 500, "internal_error")
		line := lineIn(t, h.log.String())
		text, _ := line["error"].(string)
		if cause, _ := line["cause"].(string); !strings.Contains(text, test.want) || !strings.HasPrefix(cause, "contract:") {
			t.Errorf("%s: cause %q, %q, want %q", test.route, cause, text, test.want)
		}
	}
}

// generatedAnswer returns a generated response to the current gRPC call.
func generatedAnswer(ctx context.Context, s sampler) (proto.Message, error) {
	method, _ := grpc.Method(ctx)
	for _, m := range contract.Methods() {
		if m.Path() == method {
			answer := m.NewResponse()
			s.fill(answer.ProtoReflect())
			return answer, nil
		}
	}
	return nil, status.Error(codes.Unimplemented, method)
}

func TestEveryMethodForATeamIsCalledByARoute(t *testing.T) {
	h := start(t)
	called := make(map[string]bool)
	h.services.on("", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		method, _ := grpc.Method(ctx)
		called[method] = true
		return nil, status.Error(codes.Aborted, "")
	})
	for _, route := range h.gateway.rows {
		if route.Service != "" {
			h.do(t, "full", route.Method, target(route), validBody(route)).mustBe(t, 409)
		}
	}
	for _, m := range contract.Methods() {
		if m.TeamScoped() && !called[m.Path()] {
			t.Errorf("%s is called by no route", m)
		}
	}
}

// writeGoldenViews records views in the order of their titles.
func writeGoldenViews(t *testing.T, titles []string, views map[string]string) {
	t.Helper()
	var file strings.Builder
	for _, title := range titles {
		fmt.Fprintf(&file, "== %s\n%s\n", title, views[title])
	}
	testkit.Must(t, os.WriteFile(viewsFile, []byte(file.String()), 0o600))
}

// goldenViews returns the recorded views by their titles.
func goldenViews(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(viewsFile)
	testkit.Must(t, err)
	views := make(map[string]string)
	for section := range strings.SplitSeq("\n"+string(data), "\n== ") {
		title, body, _ := strings.Cut(section, "\n")
		views[title] = strings.TrimSuffix(body, "\n")
	}
	delete(views, "")
	return views
}

func fullServer() *fleetv1.Server { return sample[*fleetv1.Server](0) }

func fullIncident() *incidentv1.Incident { return sample[*incidentv1.Incident](0) }
