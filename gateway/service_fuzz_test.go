package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

var cursorForm = regexp.MustCompile(`^[A-Za-z0-9_-]{0,512}$`)

var idForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// pageSizes are the rows that requests of requestTo ask for.
var pageSizes = map[protoreflect.FullName]int{
	"ops.incident.v1.ListIncidentsResponse.incidents": 50, "ops.audit.v1.ListAuditEntriesResponse.entries": 50,
	"ops.fleet.v1.ListServerCommandsResponse.commands": 20,
}

// requestTo returns a valid request to a route.
func requestTo(route Route) *http.Request {
	req := httptest.NewRequest(route.Method, target(route), strings.NewReader(validBody(route)))
	req.Header.Set("Authorization", "Bearer "+password)
	return req
}

// exchange serves a request, and returns it with its response.
func exchange(g http.Handler, req *http.Request, body string) openapitest.Exchange {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, req)
	return openapitest.Exchange{Request: req, RequestBody: []byte(body), Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
}

// For any response of a service, the client gets a response of the OpenAPI document: the resource
// if the service's response keeps the contract, else a 500.
func FuzzAnswer(f *testing.F) {
	m := &model{}
	g := newModelled(f, m)
	routes := slices.DeleteFunc(slices.Clone(g.rows), func(r Route) bool { return r.Service == "" })
	for i := range routes {
		var usual, empty proto.Message
		m.reply = func(_ string, reply proto.Message) error {
			usual, empty = reply.ProtoReflect().New().Interface(), reply.ProtoReflect().New().Interface()
			(&sampler{elements: 2}).fill(usual.ProtoReflect())
			return status.Error(codes.Aborted, "")
		}
		g.ServeHTTP(httptest.NewRecorder(), requestTo(routes[i]))
		for _, answer := range []proto.Message{usual, empty} {
			wire, err := proto.Marshal(answer)
			testkit.Must(f, err)
			f.Add(uint8(i), wire)
		}
	}
	for _, odd := range oddAnswers() {
		wire, err := proto.Marshal(odd.answer)
		testkit.Must(f, err)
		f.Add(uint8(slices.IndexFunc(routes, func(r Route) bool { return r.ID == odd.route })), wire)
	}
	validator := openapitest.NewLoose(f)
	f.Fuzz(func(t *testing.T, number uint8, wire []byte) {
		route, want := routes[int(number)%len(routes)], http.StatusInternalServerError
		m.reply = func(_ string, reply proto.Message) error {
			if err := proto.Unmarshal(wire, reply); err != nil {
				return status.Error(codes.Internal, err.Error()) // as gRPC does
			}
			keeps := keepsContract
			if route.Method == http.MethodPost {
				keeps = keepsPosted
			}
			if keeps(reply.ProtoReflect()) {
				want = http.StatusOK
			}
			return nil
		}
		x := exchange(g, requestTo(route), validBody(route))
		if x.Status != want {
			t.Errorf("%s: got %d %s, want %d", route.ID, x.Status, x.Body, want)
		}
		validator.CheckResponse(t, x)
	})
}

// oddAnswers returns responses of services that violate their contract.
func oddAnswers() []struct {
	route  string
	answer proto.Message
} {
	return []struct {
		route  string
		answer proto.Message
	}{
		{"v1GetServerMetrics", &fleetv1.GetServerMetricsResponse{Resolution: 1, Points: []*fleetv1.MetricPoint{{At: at(0), CpuPercent: math.NaN()}}}},
		{"v1GetServerMetrics", &fleetv1.GetServerMetricsResponse{Resolution: 7}},
		{"v1ListServers", &fleetv1.ListServersResponse{Servers: []*fleetv1.Server{{Id: "\u2028\x00", CreatedAt: &timestamppb.Timestamp{Nanos: -1}}}}},
		{"v1ListServerCommands", &fleetv1.ListServerCommandsResponse{Total: -1, Commands: []*fleetv1.ServerCommand{{DurationMs: proto.Int64(math.MinInt64)}}}},
		{"v1ListMonitors", &monitoringv1.ListMonitorsResponse{Monitors: []*monitoringv1.Monitor{{Status: 1, UptimePercent: proto.Float64(math.MaxFloat64)}}}},
		{"v1ListIncidents", &incidentv1.ListIncidentsResponse{NextCursor: `a"b>; rel="next`, CursorIgnored: true}},
		{"v1ListAudit", &auditv1.ListAuditEntriesResponse{NextCursor: strings.Repeat("x", 513)}},
		{"v1GetIncident", &incidentv1.GetIncidentResponse{Updates: []*incidentv1.IncidentUpdate{nil}}},
		{"v1ListStatusPages", &incidentv1.ListStatusPagesResponse{StatusPages: []*incidentv1.StatusPage{{OverallStatus: -1}}}},
	}
}

// keepsContract reports whether a message has all required fields, with values that the API can
// represent.
func keepsContract(m protoreflect.Message) bool {
	for i := range m.Descriptor().Fields().Len() {
		if !keepsField(m, m.Descriptor().Fields().Get(i)) {
			return false
		}
	}
	return true
}

// keepsPosted is keepsContract for the resource in the response to a POST, of which only the status
// and the id can be invalid.
func keepsPosted(m protoreflect.Message) bool {
	made := m.Descriptor().Fields().ByNumber(1)
	if !m.Has(made) {
		return false
	}
	resource := m.Get(made).Message()
	return keepsField(resource, resource.Descriptor().Fields().ByName("status")) && keepsField(resource, resource.Descriptor().Fields().ByName("id"))
}

func keepsField(m protoreflect.Message, field protoreflect.FieldDescriptor) bool {
	v := m.Get(field)
	isTime := field.Message() != nil && field.Message().FullName() == "google.protobuf.Timestamp"
	switch {
	case field.IsList() && field.Message() != nil:
		if limit := pageSizes[field.FullName()]; limit > 0 && v.List().Len() > limit {
			return false
		}
		for i := range v.List().Len() {
			if !keepsContract(v.List().Get(i).Message()) {
				return false
			}
		}
		return true
	case isTime && !m.Has(field):
		return field.HasOptionalKeyword()
	case isTime:
		at, _ := v.Message().Interface().(*timestamppb.Timestamp)
		open := field.Name() == "resolved_at" && m.Get(m.Descriptor().Fields().ByName("status")).Enum() != 4
		return at.IsValid() && !at.AsTime().IsZero() && !at.AsTime().Equal(time.Unix(0, 0)) && !open
	case field.Kind() == protoreflect.StringKind && (field.Name() == "id" || strings.HasSuffix(string(field.Name()), "_id")) && field.Name() != "actor_id":
		return !m.Has(field) && field.HasPresence() || idForm.MatchString(v.String())
	case strings.HasSuffix(string(field.Name()), "_ms"), slices.Contains([]protoreflect.Name{"total", "interval_seconds", "consecutive_failures"}, field.Name()):
		return v.Int() >= 0
	case field.Message() != nil:
		return m.Has(field) && keepsContract(v.Message())
	case field.Enum() != nil:
		return v.Enum() != 0 && field.Enum().Values().ByNumber(v.Enum()) != nil
	case field.Name() == "uptime_percent": // the view rounds it
		return !math.IsInf(v.Float()*1000, 0) && !math.IsNaN(v.Float())
	case field.Kind() == protoreflect.DoubleKind:
		return !math.IsInf(v.Float(), 0) && !math.IsNaN(v.Float())
	case field.Name() == "next_cursor":
		return cursorForm.MatchString(v.String())
	}
	return true
}

// For any error of a service, the client gets the response for its code and the violations of its
// fields, but no other text of the service.
func FuzzFailure(f *testing.F) {
	bad, _ := anypb.New(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: "component_ids[3].x", Description: "is wrong"}, {Field: "_a__b", Description: "\xe2\x80\xa8"},
	}})
	s := &services{answers: map[string]func(context.Context, proto.Message) (proto.Message, error){}}
	g, err := New(optionsWith(f, s))
	testkit.Must(f, err)
	routes := slices.DeleteFunc(slices.Clone(g.rows), func(r Route) bool { return r.Service == "" })
	post := uint8(slices.IndexFunc(routes, func(r Route) bool { return r.ID == "v1CreateIncident" }))
	f.Add(post, int32(3), "words", "status_page_id", "is not a page of this team", int64(0), "", []byte{})
	f.Add(post, int32(3), "words", "status_page_id", "is not a page of this team", int64(0), bad.TypeUrl, bad.Value)
	for i, r := range routes {
		for _, c := range everyCode {
			f.Add(uint8(i), int32(c.code), "", strings.Join(r.Fields[:min(1, len(r.Fields))], ""), "", int64(c.code)*1e9, "", []byte{})
		}
		for _, field := range slices.Concat(r.Fields, []string{"team_id", "server_id", "cursor"}) {
			f.Add(uint8(i), int32(3), "", field, "\u202eis\todd\x1b[1m", int64(0), "", []byte{})
		}
	}
	f.Add(post, int32(8), "grpc: received message larger than max (1 vs. 2)", "[", "", int64(-1), "", []byte("x"))
	f.Add(post, int32(3), "", "_.x", "is wrong", int64(0), "", []byte{})
	f.Add(post, int32(-1), "\xff", "idempotency_key", strings.Repeat("é", 600), int64(math.MaxInt64), "type.googleapis.com/no.such.Type", []byte{})
	validator := openapitest.New(f)
	f.Fuzz(func(t *testing.T, number uint8, code int32, message, field, description string, after int64, typeURL string, detail []byte) {
		const marked = "internal words 7f3a"
		if !utf8.ValidString(field) || !utf8.ValidString(description) || !utf8.ValidString(typeURL) || codes.Code(code) == codes.OK {
			return // cannot be sent
		}
		st := &spb.Status{Code: code, Message: strings.ToValidUTF8(message, "?") + marked, Details: []*anypb.Any{{TypeUrl: typeURL, Value: detail}}}
		for _, d := range []proto.Message{
			&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: description}}},
			&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(after))},
		} {
			packed, err := anypb.New(d)
			testkit.Must(t, err)
			st.Details = append(st.Details, packed)
		}
		s.fail("", status.FromProto(st).Err())
		route := routes[int(number)%len(routes)]
		req := requestTo(route)
		req.Header.Set("Authorization", "Bearer full")
		x := exchange(g, req, validBody(route))
		if x.Status != http.StatusConflict || route.Method == http.MethodPost { // as in the document
			validator.CheckResponse(t, x)
		}
		checkFailure(t, route, st, x)
		if strings.Contains(string(x.Body)+fmt.Sprint(x.Header), marked) {
			t.Errorf("the response has text of the service: %s", x.Body)
		}
	})
}

// checkFailure compares a response with everyCode.
func checkFailure(t *testing.T, route Route, st *spb.Status, x openapitest.Exchange) {
	t.Helper()
	var body struct {
		Code    string
		Details map[string]string
	}
	testkit.Must(t, json.Unmarshal(x.Body, &body))
	wantStatus, wantCode := http.StatusInternalServerError, "internal_error"
	for _, row := range everyCode {
		tooLarge := row.code == codes.ResourceExhausted && strings.Contains(st.Message, "larger than max")
		if int32(row.code) == st.Code && !tooLarge && (row.status != 422 || correctable(route, st)) {
			wantStatus, wantCode = row.of(route)
		}
	}
	if x.Status != wantStatus || body.Code != wantCode {
		t.Errorf("%s: code %d gives %d %s", route.ID, st.Code, x.Status, x.Body)
	}
	for field, text := range body.Details {
		known := slices.Contains(route.Fields, field) && field != "cursor" || field == "Idempotency-Key" && route.Method == "POST"
		odd := strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) })
		if !known || odd || text == "" || utf8.RuneCountInString(text) > 200 {
			t.Errorf("%s: details %q: %q", route.ID, field, text)
		}
	}
}

// correctable reports whether each of the first hundred violations is of a field of the route.
func correctable(route Route, st *spb.Status) bool {
	var names []string
	for _, field := range route.Fields {
		snake := strings.ToLower(regexp.MustCompile(`[A-Z]`).ReplaceAllString(field, "_$0"))
		names = append(names, field, strings.Replace(snake, "action", "action_prefix", 1))
	}
	if route.Method == http.MethodPost {
		names = append(names, "Idempotency-Key", "idempotency_key")
	}
	seen := 0
	for _, detail := range status.FromProto(st).Details() {
		bad, _ := detail.(*errdetails.BadRequest)
		for _, v := range bad.GetFieldViolations() {
			if seen++; seen > 100 {
				break
			}
			end := strings.IndexAny(v.Field+".", ".[")
			if name := v.Field[:end]; name == "cursor" || !slices.Contains(names, name) {
				return false
			}
		}
	}
	return seen > 0
}
