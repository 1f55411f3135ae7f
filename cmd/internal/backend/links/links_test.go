package links_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/links"
	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

const (
	team       = "00000000-0000-4000-8000-000000000001"
	pageID     = "00000000-0000-4000-8000-000000000002"
	subscriber = "00000000-0000-4000-8000-000000000003"
	token      = "dG9rZW4_-x7aQ2b3c4d5eg"
	confirm    = "/subscriptions/" + token + "/confirm"
	remove     = "/subscriptions/" + token + "/unsubscribe"
	unknown    = "/subscriptions/AAAAAAAAAAAAAAAAAAAAAA/"
)

// A site is the pages on a real listener, with one subscriber.
type site struct {
	t        testing.TB
	url      string
	store    *store.Store
	log      bytes.Buffer
	registry *prometheus.Registry
	later    atomic.Int64 // nanoseconds that the clock has advanced
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// start starts the pages behind the loopback network 127.0.9.0/24 of proxies.
func start(t testing.TB) *site {
	t.Helper()
	data, err := store.Open(t.Context(), t.TempDir())
	testkit.Must(t, err)
	t.Cleanup(func() { _ = data.Close() }) // a test may have closed it
	s := &site{t: t, store: data, registry: prometheus.NewRegistry()}
	testkit.Must(t, data.Write(t.Context(), func(q *query.Queries) error { return seed(t.Context(), q) }))
	pages := links.New(links.Options{
		Store: data, Clock: func() time.Time { return now.Add(time.Duration(s.later.Load())) }, Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
		Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.9.0/24")}, Registerer: s.registry,
	})
	server := httptest.NewUnstartedServer(pages)
	server.Listener = pages.Limit(server.Listener)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s.url = server.URL
	return s
}

func seed(ctx context.Context, q *query.Queries) error {
	if err := q.InsertTeam(ctx, query.InsertTeamParams{ID: team, Name: "harbour", Plan: "ai"}); err != nil {
		return err
	}
	if err := q.InsertStatusPage(ctx, query.InsertStatusPageParams{
		ID: pageID, TeamID: team, Name: "Harbour <Status>", UniqueHostname: "status.harbour.example", Slug: "harbour", Visibility: "public",
	}); err != nil {
		return err
	}
	return q.InsertSubscriber(ctx, query.InsertSubscriberParams{
		ID: subscriber, TeamID: team, StatusPageID: pageID, Channel: "email", Address: "ada@harbour.example", LinkToken: token,
	})
}

// row returns the subscriber, or nil.
func (s *site) row() (row *query.Subscriber) {
	s.t.Helper()
	testkit.Must(s.t, s.store.Read(s.t.Context(), func(q *query.Queries) error {
		if found, err := q.GetSubscriberAnyTeam(s.t.Context(), subscriber); err == nil {
			row = &found
		}
		return nil
	}))
	return row
}

// entries returns the audit log, newest first.
func (s *site) entries() (rows []query.AuditEntry) {
	s.t.Helper()
	testkit.Must(s.t, s.store.Read(s.t.Context(), func(q *query.Queries) (err error) {
		rows, err = q.ListAuditEntries(s.t.Context(), query.ListAuditEntriesParams{TeamID: team, CreatedAt: math.MaxInt64, PageSize: 100})
		return err
	}))
	return rows
}

func (s *site) do(method, path, body string) (status int, text string, header http.Header) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	testkit.Must(s.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(r)
	testkit.Must(s.t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	testkit.Must(s.t, err)
	return response.StatusCode, string(content), response.Header
}

// expect makes a request, checks the status, and that the response contains some texts.
func (s *site) expect(method, path string, status int, texts ...string) {
	s.t.Helper()
	got, body, _ := s.do(method, path, "")
	if got != status {
		s.t.Errorf("%s %s: status %d, want %d", method, path, got, status)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			s.t.Errorf("%s %s: no %q in\n%s", method, path, text, body)
		}
	}
}

func TestGetChangesNothing(t *testing.T) {
	s := start(t)
	s.expect("GET", confirm, 200, "<title>Confirm your subscription – Harbour &lt;Status&gt;</title>",
		"Send notifications of Harbour &lt;Status&gt; to a…@harbour.example?", `<form method="post"><button type="submit">Confirm</button></form>`)
	s.expect("GET", remove, 200, "<title>Unsubscribe – Harbour &lt;Status&gt;</title>", `<button type="submit">Unsubscribe</button>`)
	s.expect("HEAD", confirm, 200)
	s.expect("HEAD", remove, 200)
	if row := s.row(); row == nil || row.ConfirmedAt != nil || len(s.entries()) != 0 {
		t.Errorf("the subscriber is %+v, the audit log %v", row, s.entries())
	}
}

func TestConfirmIsIdempotent(t *testing.T) {
	s := start(t)
	for range 3 {
		s.expect("POST", confirm, 200, "Subscription confirmed", "a…@harbour.example")
	}
	s.expect("GET", confirm, 200, "Subscription confirmed")
	if row := s.row(); row == nil || row.ConfirmedAt == nil || *row.ConfirmedAt != now.UnixNano() {
		t.Errorf("the subscriber is %+v", row)
	}
	entries := s.entries()
	if len(entries) != 1 {
		t.Fatalf("the audit log is %v", entries)
	}
	e := entries[0]
	if e.ActionType != "subscriber.confirmed" || e.ResourceType != "subscriber" || e.ResourceID != subscriber ||
		e.ActorID != "00000000-0000-0000-0000-000000000000" || e.IpAddress != "127.0.0.1" || e.CreatedAt != now.UnixNano() {
		t.Errorf("the entry is %+v", e)
	}
}

// A mail program unsubscribes by one POST, and gets the same answer again.
func TestOneClickUnsubscribe(t *testing.T) {
	s := start(t)
	status, first, _ := s.do("POST", remove, "List-Unsubscribe=One-Click")
	if status != 200 || !strings.Contains(first, "<h1>Unsubscribed</h1>") {
		t.Errorf("status %d:\n%s", status, first)
	}
	if s.row() != nil {
		t.Error("the subscriber still exists")
	}
	for _, path := range []string{remove, unknown + "unsubscribe"} {
		if status, again, _ := s.do("POST", path, "List-Unsubscribe=One-Click"); status != 200 || again != first {
			t.Errorf("POST %s: the answer differs: %d\n%s", path, status, again)
		}
	}
	if entries := s.entries(); len(entries) != 1 || entries[0].ActionType != "subscriber.removed" || entries[0].ResourceID != subscriber {
		t.Errorf("the audit log is %v", entries)
	}
	s.expect("GET", remove, 404, "No such subscription")
	s.expect("GET", confirm, 404)
	s.expect("POST", confirm, 404)
}

func TestConcurrentRequestsHaveOneEffect(t *testing.T) {
	s := start(t)
	for _, path := range []string{confirm, remove} {
		var wg sync.WaitGroup
		for range 8 { // with the connections that the first eight close, at most the 16 of a network
			wg.Go(func() { s.expect("POST", path, 200) })
		}
		wg.Wait()
	}
	if entries := s.entries(); len(entries) != 2 {
		t.Errorf("the audit log is %v", entries)
	}
}

func TestOtherRequestsAreRefused(t *testing.T) {
	s := start(t)
	s.expect("GET", unknown+"confirm", 404, "No such subscription")
	s.expect("PUT", confirm, 405)
	s.expect("DELETE", remove, 405)
	s.expect("GET", "/subscriptions/"+token, 404)
	s.expect("GET", "/", 404)
	const webhook = "WWWWWWWWWWWWWWWWWWWWWW" // the tokens of webhooks are in no link
	testkit.Must(t, s.store.Write(t.Context(), func(q *query.Queries) error {
		return q.InsertSubscriber(t.Context(), query.InsertSubscriberParams{
			ID: "w", TeamID: team, StatusPageID: pageID, Channel: "webhook", Address: "https://hook.example/", LinkToken: webhook,
		})
	}))
	s.expect("GET", "/subscriptions/"+webhook+"/unsubscribe", 404)
	if status, _, _ := s.do("POST", remove, strings.Repeat("x", 4<<10+1)); status != 413 {
		t.Errorf("status %d for a large body", status)
	}
	if row := s.row(); row == nil || row.ConfirmedAt != nil {
		t.Errorf("the subscriber is %+v", row)
	}
}

func TestEveryResponseHasSecurityHeaders(t *testing.T) {
	s := start(t)
	for _, path := range []string{confirm, remove, unknown + "confirm", "/"} {
		_, body, h := s.do("GET", path, "")
		policy := h.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") ||
			!strings.Contains(policy, "frame-ancestors 'none'") || h.Get("Referrer-Policy") != "no-referrer" ||
			h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
		if strings.Contains(body, "<script") || strings.Contains(body, token) {
			t.Errorf("%s:\n%s", path, body)
		}
	}
}

// A failure is reported as such, changes nothing, and is logged without the token.
func TestFailureOfTheStore(t *testing.T) {
	s := start(t)
	testkit.Must(t, s.store.Close())
	for _, request := range [][2]string{{"GET", confirm}, {"POST", confirm}, {"GET", remove}, {"POST", remove}} {
		status, body, h := s.do(request[0], request[1], "")
		if status != 503 || h.Get("Retry-After") == "" || !strings.Contains(body, "Please try again later") {
			t.Errorf("%s %s: status %d\n%s", request[0], request[1], status, body)
		}
	}
	if text := s.log.String(); strings.Count(text, "\n") != 4 || strings.Contains(text, token) {
		t.Errorf("the log is\n%s", text)
	}
}
