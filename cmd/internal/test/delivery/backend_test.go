package delivery

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// programs is the directory of the built programs.
var programs string

func TestMain(m *testing.M) {
	os.Exit(testkit.Run(func(dir string) int {
		programs = dir
		return m.Run()
	}, "opsbackend"))
}

// A backend is an opsbackend with one page, which can be killed and started again at the same
// address.
type backend struct {
	*testkit.Process // the current one

	arguments   []string
	incidents   incidentv1.IncidentServiceClient
	team, page  string
	subscribers []string // addresses
}

// startBackend runs opsbackend with n subscribers of a page until the end of the test: half get
// emails, half webhooks.
func startBackend(t *testing.T, to *receivers, n int) *backend {
	t.Helper()
	address, data := testkit.FreeAddress(t), t.TempDir()
	b := &backend{page: uuid.NewString(), arguments: []string{
		"serve", "--listen=" + address, "--data-dir=" + data, "--allow-http-webhooks", "--smtp=" + to.smtp, "--smtp-tls=none",
		"--mail-from=status@harbour.example", "--manage-url=https://status.harbour.example/{subscriber}",
	}}
	stored, err := service.Open(t.Context(), service.Options{DataDir: data})
	testkit.Must(t, err)
	team, err := stored.CreateTeam(t.Context(), "Harbour", service.PlanAI)
	testkit.Must(t, err)
	b.team = team.ID
	testkit.Must(t, stored.Store().Write(t.Context(), func(q *query.Queries) error { return b.subscribe(t.Context(), q, to, n) }))
	testkit.Must(t, stored.Close())

	// The service is away for short times: the default of the delay between connection attempts is
	// a second and more.
	reconnect := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, conn.Close()) })
	b.incidents = incidentv1.NewIncidentServiceClient(conn)
	b.start(t)
	return b
}

// start starts the process and waits until it serves.
func (b *backend) start(t *testing.T) {
	t.Helper()
	b.Process = testkit.Start(t, exec.Command(filepath.Join(programs, "opsbackend"), b.arguments...))
	b.MustRecord(t, "serving")
}

func (b *backend) subscribe(ctx context.Context, q *query.Queries, to *receivers, n int) error {
	err := q.InsertStatusPage(ctx, query.InsertStatusPageParams{
		ID: b.page, TeamID: b.team, Name: "Harbour", UniqueHostname: "status.harbour.example", Visibility: "public",
		PrimaryColor: "#0a5fbf", CreatedAt: time.Now().UnixNano(),
	})
	for i := 0; i < n && err == nil; i++ {
		row := query.InsertSubscriberParams{
			ID: uuid.NewString(), TeamID: b.team, StatusPageID: b.page, Channel: "email", Address: fmt.Sprintf("subscriber-%d@mail.example", i),
			CreatedAt: time.Now().UnixNano(),
		}
		if i%2 == 1 { // each has its own host
			row.Channel, row.Secret = "webhook", []byte(rand.Text())
			row.Address = fmt.Sprintf("http://127.0.%d.%d:%s/%d", 1+i/250, 1+i%250, to.httpPort, i)
		}
		b.subscribers = append(b.subscribers, row.Address)
		err = q.InsertSubscriber(ctx, row)
	}
	return err
}

// create opens an incident on the page, with a mark in its first update.
func (b *backend) create(ctx context.Context, mark string) (*incidentv1.CreateIncidentResponse, error) {
	return b.incidents.CreateIncident(ctx, &incidentv1.CreateIncidentRequest{
		TeamId: b.team, StatusPageId: &b.page, Actor: operator(), Title: "Slow responses", Message: "We are on it: " + mark,
		Status:         incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING,
		Impact:         incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR,
		IdempotencyKey: mark,
	})
}

// update posts an update of the incident with the mark.
func (b *backend) update(ctx context.Context, incident, mark string, notify bool) error {
	_, err := b.incidents.AddIncidentUpdate(ctx, &incidentv1.AddIncidentUpdateRequest{
		TeamId: b.team, IncidentId: incident, Actor: operator(), Message: "It goes on: " + mark,
		Status: incidentv1.IncidentStatus_INCIDENT_STATUS_MONITORING, NotifySubscribers: notify, IdempotencyKey: mark,
	})
	return err
}

func operator() *incidentv1.Actor {
	return &incidentv1.Actor{TokenId: "6f2b8f0e-3f5c-4d1a-9b1e-0a7c5d3e2f10", IpAddress: "192.0.2.7", RequestId: "req-1"}
}
