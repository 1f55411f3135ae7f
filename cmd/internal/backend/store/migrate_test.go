package store_test

import (
	"database/sql"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/pressly/goose/v3"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
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

// An upgrade has no effect that clients or subscribers see: it sends no old notification, opens no incident and changes no page.
func TestUpgradeKeepsRowsAndCausesNothing(t *testing.T) {
	dir := t.TempDir()
	openVersion2(t, dir)
	s := open(t, dir)
	testkit.Must(t, s.Read(t.Context(), func(q *query.Queries) error {
		if n, err := q.NextNotificationAnyTeam(t.Context()); !errors.Is(err, sql.ErrNoRows) {
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

// An upgrade leaves each address of a page once, in the form of new ones: the first that is confirmed.
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
