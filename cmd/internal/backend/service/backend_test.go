package service_test

import (
	"context"
	"database/sql"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// maxResponse is the default of the gateway (upstream_calls.max_response_bytes).
const maxResponse = 8 << 20

// start is the initial time of the tests' clocks.
func start() time.Time { return time.Date(2026, 3, 14, 15, 9, 26, 535_897_932, time.UTC) }

// A clock has a fixed time until Move is called. A broken clock panics.
type clock struct {
	broken atomic.Bool
	mu     sync.Mutex
	now    time.Time
}

func (c *clock) Now() time.Time {
	if c.broken.Load() {
		panic("the clock is broken")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// A system is a backend with a database file and a listener, and its clients.
type system struct {
	t       testing.TB
	dir     string
	clock   *clock
	backend *service.Backend
	stop    context.CancelFunc
	done    chan error
	conn    *grpc.ClientConn

	fleet      fleetv1.FleetServiceClient
	monitoring monitoringv1.MonitoringServiceClient
	incident   incidentv1.IncidentServiceClient
	audit      auditv1.AuditServiceClient
	identity   identityv1.IdentityServiceClient
}

// startSystem serves an empty database until the end of the test.
func startSystem(t testing.TB) *system {
	t.Helper()
	return startOn(t, t.TempDir(), &clock{now: start()})
}

func startOn(t testing.TB, dir string, c *clock) *system {
	t.Helper()
	return startWith(t, service.Options{DataDir: dir}, c)
}

// startWith serves with the options, of which it sets the clock and the intervals of streams.
func startWith(t testing.TB, o service.Options, c *clock) *system {
	t.Helper()
	s := &system{t: t, dir: o.DataDir, clock: c, done: make(chan error, 1)}
	o.Clock, o.Heartbeat, o.RevocationPoll = c.Now, 50*time.Millisecond, 10*time.Millisecond
	var err error
	s.backend, err = service.Open(t.Context(), o)
	testkit.Must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.done <- s.backend.Serve(ctx, listener) }()
	s.conn, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)))
	testkit.Must(t, err)
	s.fleet = fleetv1.NewFleetServiceClient(s.conn)
	s.monitoring = monitoringv1.NewMonitoringServiceClient(s.conn)
	s.incident = incidentv1.NewIncidentServiceClient(s.conn)
	s.audit = auditv1.NewAuditServiceClient(s.conn)
	s.identity = identityv1.NewIdentityServiceClient(s.conn)
	t.Cleanup(s.close)
	return s
}

// close stops the system. Later calls have no effect.
func (s *system) close() {
	if s.conn == nil {
		return
	}
	testkit.Must(s.t, s.conn.Close())
	s.conn = nil
	s.stop()
	testkit.Must(s.t, <-s.done)
	testkit.Must(s.t, s.backend.Close())
}

// restart closes the file and opens it again.
func (s *system) restart() *system {
	s.t.Helper()
	s.close()
	return startOn(s.t, s.dir, s.clock)
}

// insert writes rows that no method of the contract writes.
func (s *system) insert(fn func(ctx context.Context, q *query.Queries) error) {
	s.t.Helper()
	testkit.Must(s.t, s.backend.Store().Write(s.t.Context(), func(q *query.Queries) error { return fn(s.t.Context(), q) }))
}

// file opens the database like another process.
func (s *system) file() *sql.DB {
	s.t.Helper()
	return storetest.Open(s.t, s.dir, "_txlock=immediate")
}

// exec executes a statement like another process.
func (s *system) exec(statement string, arguments ...any) {
	s.t.Helper()
	_, err := s.file().Exec(statement, arguments...)
	testkit.Must(s.t, err)
}

// count returns how many rows a table has.
func (s *system) count(table string) int {
	s.t.Helper()
	return storetest.Count(s.t, s.file(), table)
}

// A team holds the ids of a team with one server, monitor, page and component.
type team struct {
	id, server, monitor, page, component string
}

// team creates a team with one server, one monitor and one page with one component.
func (s *system) team(name string) team {
	s.t.Helper()
	made, err := s.backend.CreateTeam(s.t.Context(), name, service.PlanAI)
	testkit.Must(s.t, err)
	t := team{
		id: made.ID, server: uuid.NewString(), monitor: uuid.NewString(), page: uuid.NewString(), component: uuid.NewString(),
	}
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return firstError(
			q.InsertServer(ctx, query.InsertServerParams{ID: t.server, TeamID: t.id, Name: name + "-1", Tags: `["a","b"]`}),
			q.InsertMonitor(ctx, query.InsertMonitorParams{ID: t.monitor, TeamID: t.id, Name: name, Type: "http", Status: "up"}),
			q.InsertStatusPage(ctx, query.InsertStatusPageParams{
				ID: t.page, TeamID: t.id, Name: name, UniqueHostname: name + ".example", Visibility: "public",
			}),
			q.InsertComponent(ctx, query.InsertComponentParams{
				ID: t.component, TeamID: t.id, StatusPageID: t.page, Name: name, Status: "operational",
			}),
		)
	})
	return t
}

func actor() *incidentv1.Actor {
	return &incidentv1.Actor{TokenId: "6f2b8f0e-3f5c-4d1a-9b1e-0a7c5d3e2f10", IpAddress: "192.0.2.7", RequestId: "req-1"}
}

// startTeam is startSystem with a team.
func startTeam(t testing.TB) (*system, team) {
	t.Helper()
	s := startSystem(t)
	return s, s.team("harbour")
}

// newIncident returns a valid request.
func newIncident(t team, title string) *incidentv1.CreateIncidentRequest {
	return &incidentv1.CreateIncidentRequest{
		TeamId: t.id, Actor: actor(), Title: title, Message: "We are on it.",
		Status: incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING,
		Impact: incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR,
	}
}

// create creates an incident.
func (s *system) create(r *incidentv1.CreateIncidentRequest) *incidentv1.Incident {
	s.t.Helper()
	response, err := s.incident.CreateIncident(s.t.Context(), r)
	testkit.Must(s.t, err)
	return response.GetIncident()
}

// newUpdate returns a valid request.
func newUpdate(t team, incident string) *incidentv1.AddIncidentUpdateRequest {
	return &incidentv1.AddIncidentUpdateRequest{
		TeamId: t.id, Actor: actor(), IncidentId: incident, Message: "Found it.",
		Status: incidentv1.IncidentStatus_INCIDENT_STATUS_IDENTIFIED, NotifySubscribers: true,
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// mustBe fails the test if a call did not end with the code.
func mustBe(t testing.TB, err error, code codes.Code) {
	t.Helper()
	if got := status.Code(err); got != code {
		t.Fatalf("the call ended with %v, want %v", err, code)
	}
}

// violated returns the fields that an INVALID_ARGUMENT names.
func violated(t testing.TB, err error) map[string]string {
	t.Helper()
	mustBe(t, err, codes.InvalidArgument)
	fields := map[string]string{}
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				fields[v.GetField()] = v.GetDescription()
			}
		}
	}
	if len(fields) == 0 {
		t.Fatalf("%v names no field", err)
	}
	return fields
}
