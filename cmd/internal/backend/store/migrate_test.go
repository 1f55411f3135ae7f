package store_test

import (
	"database/sql"
	"os"
	"slices"
	"testing"

	"github.com/pressly/goose/v3"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

// rowsOfVersion2 are an open incident with a notification, and a monitor that is down.
const rowsOfVersion2 = `
	INSERT INTO teams VALUES ('team', 'harbour', 'ai', 1);
	INSERT INTO status_pages VALUES ('page', 'team', 'Harbour', 'status.harbour.example', 'harbour', 'public', '#000', NULL, 0, 1);
	INSERT INTO monitors VALUES ('monitor', 'team', 'Berths', 'http', 'https://berths.example', 'down', 1, 60, 2, 2);
	INSERT INTO incidents VALUES ('incident', 'team', 'page', 'Slow', 'investigating', 'major', 0, 2, NULL, 2);
	INSERT INTO incident_updates VALUES ('update', 'team', 'incident', 'investigating', 'We look into it.', 2);
	INSERT INTO notifications VALUES ('notification', 'team', 'page', 'incident', 'update', 'incident.created', 0, 2);`

// openVersion2 creates a database of version 2 with these rows.
func openVersion2(t *testing.T, dir string) (*sql.DB, *goose.Provider) {
	t.Helper()
	db := storetest.Open(t, dir, "")
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS("migrations"), goose.WithDisableGlobalRegistry(true))
	testkit.Must(t, err)
	_, err = provider.UpTo(t.Context(), 2)
	testkit.Must(t, err)
	_, err = db.Exec(rowsOfVersion2)
	testkit.Must(t, err)
	return db, provider
}

// An upgrade has no effect that clients or subscribers see: it sends no old notification, opens no
// incident and changes no page.
func TestUpgradeKeepsRowsAndCausesNothing(t *testing.T) {
	dir := t.TempDir()
	openVersion2(t, dir)
	s := open(t, dir)
	testkit.Must(t, s.Read(t.Context(), func(q *query.Queries) error {
		if n, err := q.CountWaitingDeliveriesAnyTeam(t.Context()); err != nil || len(n) > 0 {
			t.Errorf("an old notification is sent: %v, %v", n, err)
		}
		monitor, err := q.GetMonitorAnyTeam(t.Context(), "monitor")
		if err != nil || monitor.OpensIncidents || monitor.IncidentID != nil || monitor.Status != "down" {
			t.Errorf("the monitor is %+v, %v", monitor, err)
		}
		open, err := q.CountOpenIncidents(t.Context(), query.CountOpenIncidentsParams{TeamID: "team", MaxCount: 2})
		testkit.Must(t, err)
		impacts, err := q.ListPageImpacts(t.Context(), query.ListPageImpactsParams{TeamID: "team", Now: 3})
		if err != nil || open != 1 || len(impacts) != 1 || impacts[0].Impact != "operational" {
			t.Errorf("%d open incidents, and their impacts are %+v, %v", open, impacts, err)
		}
		return nil
	}))
}

// An upgrade leaves each address of a page once, in the form of new ones: the first that is
// confirmed.
func TestUpgradeMergesSubscribersOfOneAddress(t *testing.T) {
	dir := t.TempDir()
	db, provider := openVersion2(t, dir)
	_, err := provider.UpTo(t.Context(), 4)
	testkit.Must(t, err)
	for i, row := range []struct {
		channel, address string
		confirmed        any
	}{
		{"email", "Ops@Customer.example", nil},
		{"email", "ops@customer.example", 7},
		{"email", "OPS@customer.example", 8},
		{"webhook", "https://Hooks.example:443/Path?A", 1},
		{"webhook", "https://hooks.example/Path?A", 2},
		{"webhook", "https://hooks.example/path?A", 3},
		{"webhook", "https://Other.example?Key=/A", 4},
		{"webhook", "http://Local.example:80", 5},
	} {
		_, err = db.Exec("INSERT INTO subscribers (id, team_id, status_page_id, channel, address, link_token, created_at, confirmed_at) "+
			"VALUES (?1, 'team', 'page', ?2, ?3, ?1, 1, ?4)", i, row.channel, row.address, row.confirmed)
		testkit.Must(t, err)
	}
	var got []string
	testkit.Must(t, open(t, dir).Read(t.Context(), func(q *query.Queries) error {
		rows, err := q.ListSubscribersAnyTeam(t.Context(), "page")
		for _, row := range rows {
			got = append(got, row.Subscriber.ID+" "+row.Subscriber.Address)
		}
		return err
	}))
	want := []string{
		"1 ops@customer.example", "3 https://hooks.example/Path?A", "5 https://hooks.example/path?A", "6 https://other.example?Key=/A",
		"7 http://local.example",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// An upgrade keeps the deliveries that wait, and writes those of a notification that reached only
// some subscribers of its page. Those that are not confirmed or are stopped, and requests to
// confirm, go.
func TestUpgradeKeepsWaitingDeliveries(t *testing.T) {
	dir := t.TempDir()
	db, provider := openVersion2(t, dir)
	_, err := provider.UpTo(t.Context(), 6)
	testkit.Must(t, err)
	_, err = db.Exec(`
		INSERT INTO subscribers (id, team_id, status_page_id, channel, address, link_token, created_at, confirmed_at, stopped_at) VALUES
			('a', 'team', 'page', 'webhook', 'https://a.example', 'a', 1, 1, NULL), ('b', 'team', 'page', 'email', 'b@b.example', 'b', 1, 1, NULL),
			('late', 'team', 'page', 'email', 'l@b.example', 'l', 1, 9, NULL), ('new', 'team', 'page', 'email', 'n@b.example', 'n', 1, NULL, NULL),
			('stopped', 'team', 'page', 'email', 's@b.example', 's', 1, 1, 2);
		INSERT INTO notifications (id, team_id, status_page_id, incident_id, update_id, event, suppressed, created_at, expanded_to, expanded_at)
			VALUES ('second', 'team', 'page', 'incident', 'update', 'incident.update_posted', 0, 3, 'a', NULL),
			('third', 'team', 'page', 'incident', 'update', 'incident.update_posted', 1, 4, '', NULL);
		INSERT INTO deliveries (id, subscriber_id, channel, notification_id, state, attempts, due_at, created_at) VALUES
			('1', 'a', 'webhook', 'notification', 'waiting', 3, 77, 2), ('2', 'a', 'webhook', 'second', 'waiting', 0, NULL, 3),
			('3', 'b', 'email', NULL, 'waiting', 0, 5, 2), ('4', 'b', 'email', 'notification', 'waiting', 0, NULL, 2),
			('5', 'new', 'email', NULL, 'waiting', 0, 5, 2);`)
	testkit.Must(t, err)
	open(t, dir)
	got := storetest.Column[string](t, db, `SELECT subscriber_id || ' ' || notification_id || ' ' || attempts || ' ' || coalesce(due_at, '-')
		FROM deliveries ORDER BY sequence`)
	if want := []string{"a notification 3 77", "a second 0 -", "b notification 0 0", "b second 0 -"}; !slices.Equal(got, want) {
		t.Errorf("deliveries %q", got)
	}
	if got := storetest.Column[string](t, db, "SELECT id FROM subscribers ORDER BY id"); !slices.Equal(got, []string{"a", "b", "late"}) {
		t.Errorf("subscribers %q", got)
	}
}
