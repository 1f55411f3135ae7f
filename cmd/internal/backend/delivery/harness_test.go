package delivery_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

// A fataler is a test or a rapid test.
type fataler interface {
	storetest.TB
	Fatalf(format string, arguments ...any)
}

// A fixture is a store with one team, a status page of two components and an incident.
type fixture struct {
	t        fataler
	dir      string
	store    *store.Store
	file     *sql.DB // of the store
	incident query.Incident
	updates  int
	clock    func() time.Time // of deliveries
}

const (
	team = "team"
	page = "page"
)

// openFixture returns a fixture until the end of the test.
func openFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, t.TempDir())
	t.Cleanup(f.close)
	return f
}

func newFixture(t fataler, dir string) *fixture {
	t.Helper()
	data, err := store.Open(context.Background(), dir)
	testkit.Must(t, err)
	f := &fixture{t: t, dir: dir, store: data, clock: time.Now, file: storetest.Open(t, dir, "mode=ro&_busy_timeout=5000"), incident: query.Incident{
		ID: "incident", TeamID: team, Title: "Checkout is slow", Status: "investigating", Impact: "major", StartedAt: 7, CreatedAt: 7,
	}}
	where := page
	f.incident.StatusPageID = &where
	f.write(func(ctx context.Context, q *query.Queries) error {
		testkit.Must(t, q.InsertTeam(ctx, query.InsertTeamParams{ID: team, Name: team, Plan: "ai"}))
		testkit.Must(t, q.InsertStatusPage(ctx, query.InsertStatusPageParams{
			ID: page, TeamID: team, Name: "Shop", UniqueHostname: "status.shop.example",
		}))
		for i, name := range []string{"Checkout", "API"} { // by position: API, Checkout
			testkit.Must(t, q.InsertComponent(ctx, query.InsertComponentParams{
				ID: name, TeamID: team, StatusPageID: page, Name: name, Position: int64(2 - i), Status: "operational",
			}))
		}
		testkit.Must(t, q.InsertIncident(ctx, query.InsertIncidentParams(f.incident)))
		for _, name := range []string{"Checkout", "API"} {
			testkit.Must(t, q.InsertIncidentComponent(ctx, query.InsertIncidentComponentParams{
				TeamID: team, IncidentID: f.incident.ID, ComponentID: name,
			}))
		}
		return nil
	})
	return f
}

func (f *fixture) close() { testkit.Must(f.t, f.store.Close()) }

func (f *fixture) write(do func(context.Context, *query.Queries) error) {
	f.t.Helper()
	ctx := context.Background()
	testkit.Must(f.t, f.store.Write(ctx, func(q *query.Queries) error { return do(ctx, q) }))
}

// subscribe adds a subscriber.
func (f *fixture) subscribe(id, channel string) {
	f.t.Helper()
	address := map[string]string{delivery.Email: id + "@mail.example", delivery.Webhook: "https://" + id + ".example/?key=hidden"}[channel]
	f.write(func(ctx context.Context, q *query.Queries) error {
		return q.InsertSubscriber(ctx, query.InsertSubscriberParams{
			ID: id, TeamID: team, StatusPageID: page, Channel: channel, Address: address, Secret: []byte("secret"), CreatedAt: 1,
		})
	})
}

// notify writes an update of the incident with its notification, and returns the update's text.
func (f *fixture) notify(suppressed bool) string {
	f.t.Helper()
	f.updates++
	text := fmt.Sprintf("update %04d", f.updates)
	at := int64(f.updates)
	f.write(func(ctx context.Context, q *query.Queries) error {
		testkit.Must(f.t, q.InsertIncidentUpdate(ctx, query.InsertIncidentUpdateParams{
			ID: text, TeamID: team, IncidentID: f.incident.ID, Status: "identified", Message: text, CreatedAt: at,
		}))
		row := query.InsertNotificationParams{
			ID: "notification of " + text, TeamID: team, StatusPageID: page, IncidentID: f.incident.ID, UpdateID: text,
			Event: delivery.UpdatePosted, Suppressed: suppressed, CreatedAt: at,
			Traceparent: "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
		}
		testkit.Must(f.t, q.InsertNotification(ctx, row))
		if suppressed {
			return nil
		}
		return q.InsertDeliveriesAnyTeam(ctx, query.InsertDeliveriesAnyTeamParams{
			NotificationID: row.ID, CreatedAt: f.clock().UnixNano(), StatusPageID: page,
		})
	})
	return text
}

// A running is a dispatcher that runs.
type running struct {
	dispatcher *delivery.Dispatcher
	stop       context.CancelFunc
	done       chan error
}

// start runs a dispatcher on the fixture.
func (f *fixture) start(options delivery.Options) *running {
	ctx, stop := context.WithCancel(context.Background())
	r := &running{dispatcher: delivery.New(f.store, options), stop: stop, done: make(chan error, 1)}
	go func() { r.done <- r.dispatcher.Run(ctx) }()
	return r
}

// end stops the dispatcher and waits for its end.
func (r *running) end(t fataler) {
	t.Helper()
	r.stop()
	testkit.Must(t, <-r.done)
}

// attemptTimeout is the time that the senders of tests give an attempt.
const attemptTimeout = 15 * time.Second

// A recorder is a sender that records all messages and accepts those that fail returns nil for.
type recorder struct {
	fail func(ctx context.Context, m delivery.Message) error

	mu       sync.Mutex
	messages []delivery.Message
}

func (r *recorder) Send(ctx context.Context, m delivery.Message) error {
	r.mu.Lock()
	r.messages = append(r.messages, m)
	r.mu.Unlock()
	if r.fail == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return r.fail(ctx, m)
}

// received returns the texts of all attempts to send to a subscriber.
func (r *recorder) received(subscriber string) (texts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.messages {
		if m.Subscriber.ID == subscriber {
			texts = append(texts, m.Update.Message)
		}
	}
	return texts
}

func webhooks(s delivery.Sender) map[string]delivery.Sender {
	return map[string]delivery.Sender{delivery.Webhook: s}
}

// states returns the deliveries of a subscriber in their order: state, attempts and last error.
func (f *fixture) states(subscriber string) []string {
	f.t.Helper()
	return storetest.Column[string](f.t, f.file, "SELECT state || ' ' || attempts || ' ' || last_error FROM deliveries "+
		"WHERE subscriber_id = '"+subscriber+"' ORDER BY sequence")
}

// pass lets the time of the bubble pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func isUUID(id string) bool { return uuid.Validate(id) == nil && strings.ToLower(id) == id }
