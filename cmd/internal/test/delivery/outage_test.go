package delivery

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/authn"
	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/command"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/test/testkit"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// A clock is moved by a test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// An outage is a monitor of a component on a page, watched over the public API.
type outage struct {
	*client

	page    *page
	monitor string
	clock   *clock
	backend *service.Backend // for probes
}

// A probe fails three times and succeeds again. The monitor, the component, the page and the incident change over the public API,
// subscribers get an email and a webhook of each step, and the audit log has all steps in order.
func TestOutageFromProbeToSubscribers(t *testing.T) {
	to := startReceivers(t, nil)
	o := startOutage(t, to)
	o.expect("up", "operational", "operational", 0)
	o.check("down", time.Minute)
	o.expect("degraded", "degraded", "degraded", 0)
	o.check("down", time.Minute)
	o.check("down", time.Minute)
	o.expect("down", "outage", "outage", 1)
	o.receive(to, "incident.created", "Harbour API is down", "investigating", 1)

	o.check("up", time.Minute)
	o.check("up", time.Minute)
	o.expect("up", "operational", "degraded", 1) // the incident is open
	o.check("up", 5*time.Minute)
	o.expect("up", "operational", "operational", 0)
	incidents := get[[]map[string]any](o.client, "/v1/status-pages/"+o.page.id+"/incidents")
	if len(incidents) != 1 || incidents[0]["status"] != "resolved" || incidents[0]["resolvedAt"] == nil {
		t.Errorf("incidents %v", incidents)
	}
	incident := get[map[string]any](o.client, "/v1/incidents/"+fmt.Sprint(incidents[0]["id"]))
	if updates, _ := incident["updates"].([]any); len(updates) != 2 {
		t.Errorf("updates %v", incident["updates"])
	}
	o.receive(to, "incident.update_posted", "Harbour API is down", "resolved", 2)
	o.audited([]string{
		"monitor.degraded", "component.status_changed",
		"monitor.down", "component.status_changed", "incident.created",
		"monitor.recovered", "component.status_changed", "incident.update_posted",
	})
}

// startOutage runs opsbackend in this process, because it gets the clock of the test, and a gateway.
func startOutage(t *testing.T, to *receivers) *outage {
	t.Helper()
	o := &outage{page: newPage(t, to, 2), monitor: uuid.NewString(), clock: &clock{now: time.Now()}}
	var err error
	o.backend, err = service.Open(t.Context(), service.Options{DataDir: o.page.data, Clock: o.clock.Now})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, o.backend.Close()) })
	testkit.Must(t, o.backend.Store().Write(t.Context(), func(q *query.Queries) error {
		err := q.InsertMonitor(t.Context(), query.InsertMonitorParams{
			ID: o.monitor, TeamID: o.page.team, Name: "Harbour API", Type: "http", Target: "https://harbour.example",
			Status: "up", Enabled: true, IntervalSeconds: 60, OpensIncidents: true,
		})
		if err != nil {
			return err
		}
		return q.InsertComponent(t.Context(), query.InsertComponentParams{
			ID: uuid.NewString(), TeamID: o.page.team, StatusPageID: o.page.id, MonitorID: &o.monitor, Name: "API", Status: "operational",
		})
	}))
	o.client = startGateway(t, startInProcess(t, o.clock, serveArguments("127.0.0.1:0", o.page.data, to)), newToken(t, o.backend, o.page))
	return o
}

// newToken creates a token that may do everything.
func newToken(t *testing.T, backend *service.Backend, p *page) string {
	t.Helper()
	token, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.Reader)
	testkit.Must(t, err)
	_, err = backend.CreateToken(t.Context(), service.NewToken{
		TeamID: p.team, Name: "test", SHA256: authn.Hash(token), Scopes: authn.NewScopes(authn.AllScopes()...).Strings(),
	})
	testkit.Must(t, err)
	return token
}

// startInProcess runs the program until the end of the test, and returns the address on which it serves.
func startInProcess(t *testing.T, c *clock, arguments []string) (address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	log, ended := new(testkit.Buffer), make(chan int, 1)
	go func() {
		ended <- command.Run(ctx, arguments, command.Environment{Out: log, Err: log, Clock: c.Now})
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 || t.Failed() {
			t.Errorf("opsbackend ended with %d:\n%s", code, log.String())
		}
	})
	testkit.Eventually(t, "opsbackend serves", func() bool {
		record := testkit.RecordIn(log.String(), "serving")
		address = fmt.Sprint(record["address"])
		return record != nil
	})
	return address
}

// check records a check of the monitor after the time.
func (o *outage) check(status string, after time.Duration) {
	o.t.Helper()
	response, err := o.backend.Ingest().RecordChecks(o.t.Context(), &ingestv1.RecordChecksRequest{Items: []*ingestv1.MonitorCheck{{
		MonitorId: o.monitor, CheckedAt: timestamppb.New(o.clock.move(after)), Status: status, LatencyMs: 20,
	}}})
	testkit.Must(o.t, err)
	if refused := response.GetErrors(); len(refused) > 0 {
		o.t.Errorf("a check was refused: %v", refused)
	}
}

// expect checks the statuses of monitor, component and page, and how many incidents are open.
func (o *outage) expect(monitor, component, page string, open int) {
	o.t.Helper()
	monitors := get[[]struct{ ID, Status string }](o.client, "/v1/monitors")
	if len(monitors) != 1 || monitors[0].ID != o.monitor || monitors[0].Status != monitor {
		o.t.Errorf("monitors %v, want %s", monitors, monitor)
	}
	shown := get[struct {
		OverallStatus string
		Components    []struct{ Status string }
	}](o.client, "/v1/status-pages/"+o.page.id)
	if shown.OverallStatus != page || len(shown.Components) != 1 || shown.Components[0].Status != component {
		o.t.Errorf("page %+v, want %s with a component %s", shown, page, component)
	}
	incidents := get[struct{ Items []struct{ Status string } }](o.client, "/v1/incidents").Items
	unresolved := slices.DeleteFunc(incidents, func(i struct{ Status string }) bool { return i.Status == "resolved" })
	if len(unresolved) != open {
		o.t.Errorf("%d open incidents, want %d", len(unresolved), open)
	}
}

// receive waits until both subscribers have n messages, and checks the last ones.
func (o *outage) receive(to *receivers, event, title, status string, n int) {
	o.t.Helper()
	testkit.Eventually(o.t, fmt.Sprintf("%d emails and %d webhooks arrive", n, n), func() bool { return to.count() >= 2*n })
	arrivals := to.all()
	for _, a := range arrivals[2*(n-1):] {
		text := string(a.content)
		if !strings.HasPrefix(a.subscriber, "http") {
			if !strings.Contains(strings.Join(a.header["Subject"], ""), title) {
				o.t.Errorf("an email has no %q in its subject:\n%s", title, text)
			}
			continue
		}
		verifier, err := standardwebhooks.NewWebhookRaw(o.page.secrets[a.subscriber])
		testkit.Must(o.t, err)
		if err := verifier.Verify(a.content, http.Header(a.header)); err != nil {
			o.t.Errorf("the signature of %s: %v", text, err)
		}
		for _, want := range []string{`"` + event + `"`, title, `"` + status + `"`} {
			if !strings.Contains(text, want) {
				o.t.Errorf("a webhook has no %s: %s", want, text)
			}
		}
	}
	if n := len(arrivals); arrivals[n-1].subscriber == arrivals[n-2].subscriber {
		o.t.Errorf("two messages to %s, none to the other subscriber", arrivals[n-1].subscriber)
	}
}

// audited checks the last actions.
func (o *outage) audited(want []string) {
	o.t.Helper()
	var got []string
	page := get[struct{ Items []struct{ ActionType string } }](o.client, fmt.Sprintf("/v1/audit?limit=%d", len(want))) // newest first
	for _, entry := range page.Items {
		got = append(got, entry.ActionType)
	}
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		o.t.Errorf("the audit log ends with %v, want %v", got, want)
	}
}
