package gateway

import (
	"context"
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"opsgate/authn"
	"opsgate/internal/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
	"opsgate/ratelimit"
)

// A model implements all services: it answers each call at once with a generated message, and
// checks the request.
type model struct {
	mu    sync.Mutex
	wrong []string                                       // violations in requests
	reply func(method string, reply proto.Message) error // nil for generated answers
}

// newModelled returns a gateway that calls the model. The token password has all scopes.
func newModelled(tb testing.TB, m *model, change ...func(*Options)) *Gateway {
	tb.Helper()
	limiter := ratelimit.NewMemory(time.Now)
	o := Options{
		Fleet: fleetv1.NewFleetServiceClient(m), Monitoring: monitoringv1.NewMonitoringServiceClient(m),
		Incident: incidentv1.NewIncidentServiceClient(m), Audit: auditv1.NewAuditServiceClient(m),
		Authenticator: tokens{password: {TokenID: tokenID, TeamID: teamID, Scopes: authn.NewScopes(authn.AllScopes()...), AIPlan: true}},
		Limiter:       limiter, Refunds: NewRefunds(RefundsOptions{Limiter: limiter, Metrics: newMetrics()}),
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Policies:       policies(tb, ratelimit.Limit{Name: "second", Requests: 1_000_000, Per: time.Second}),
	}
	for _, c := range change {
		c(&o)
	}
	g, err := New(o)
	testkit.Must(tb, err)
	return g
}

// Invoke implements [grpc.ClientConnInterface].
func (m *model) Invoke(_ context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	method = method[strings.LastIndexByte(method, '/')+1:]
	sent, answer := request.(proto.Message), reply.(proto.Message)
	if m.reply != nil {
		return m.reply(method, answer)
	}
	m.check(sent.ProtoReflect())
	(&sampler{elements: 9}).fill(answer.ProtoReflect())
	if paged, ok := request.(interface{ GetPageSize() int32 }); ok {
		answer.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if field.IsList() {
				v.List().Truncate(min(v.List().Len(), int(paged.GetPageSize())))
			}
			return true
		})
	}
	return nil
}

// NewStream implements [grpc.ClientConnInterface].
func (*model) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("the gateway calls no streams")
}

// check records the values in a request that break the internal contract.
func (m *model) check(request protoreflect.Message) {
	lower := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	want := func(holds bool, field protoreflect.FieldDescriptor, v any) {
		if !holds {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.wrong = append(m.wrong, string(field.FullName())+": "+strings.ToValidUTF8(protoreflect.ValueOf(v).String(), "?"))
		}
	}
	request.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch name := string(field.Name()); {
		case name == "actor":
			m.check(v.Message())
		case name == "component_ids":
			for i := range v.List().Len() {
				id := v.List().Get(i).String()
				want(lower.MatchString(id), field, id)
			}
		case name == "request_id", name == "idempotency_key":
			want(keyForm.MatchString(v.String()), field, v.String())
		case strings.HasSuffix(name, "_id"):
			want(lower.MatchString(v.String()), field, v.String())
		case name == "page_size":
			want(v.Int() >= 1 && v.Int() <= 100, field, v.Int())
		case name == "ip_address":
			_, err := netip.ParseAddr(v.String())
			want(err == nil, field, v.String())
		case field.Kind() == protoreflect.StringKind:
			want(!strings.Contains(v.String(), "\x00"), field, v.String())
		}
		return true
	})
	team := request.Descriptor().Fields().ByName("team_id")
	want(team == nil || request.Get(team).String() == teamID, team, "another team")
}

// takeViolations returns the violations since the last call.
func (m *model) takeViolations() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	wrong := m.wrong
	m.wrong = nil
	return wrong
}
