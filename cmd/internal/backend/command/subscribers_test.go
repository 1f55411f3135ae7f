package command_test

import (
	"bytes"
	"database/sql"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/command"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

// secretURL has a secret in its path, as the URLs of chat services have.
const secretURL = "https://hooks.customer.example/T0123/s3cret-path"

// seeded returns a data directory with the demo data.
func seeded(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	serve(t, "--data-dir", dir, "--seed", "demo").stop()
	return dir
}

// database opens the database like another process.
func database(t *testing.T, dir string) *sql.DB {
	t.Helper()
	return storetest.Open(t, dir, "_busy_timeout=5000")
}

// page returns the hostname of a page, and its id.
func page(t *testing.T, dir string) (hostname, id string) {
	t.Helper()
	testkit.Must(t, database(t, dir).QueryRow("SELECT unique_hostname, id FROM status_pages ORDER BY id LIMIT 1").Scan(&hostname, &id))
	return hostname, id
}

func TestSubscriberOfAWebhook(t *testing.T) {
	dir := seeded(t)
	hostname, id := page(t, dir)
	code, out, note := run(t, "subscriber", "add", "--data-dir", dir, "--page", hostname, "--webhook", secretURL)
	secret := strings.TrimSpace(out)
	if code != 0 || !strings.HasPrefix(secret, "whsec_") || strings.ContainsAny(secret, " \n") || strings.Contains(note, secret) {
		t.Fatalf("exit code %d, printed %q and %q", code, out, note)
	}
	list := succeed(t, "subscriber", "list", "--data-dir", dir, "--page", id)
	subscriber := idOf(t, list, "https://hooks.customer.example/…")
	if !strings.Contains(note, subscriber) || strings.Contains(list, "s3cret") || strings.Contains(list, secret) || !strings.Contains(list, hostname) {
		t.Errorf("printed %q, list\n%s", note, list)
	}

	code, out, note = run(t, "subscriber", "add", "--data-dir", dir, "--page", id, "--webhook", secretURL)
	if code != 1 || out != "" || !strings.Contains(note, "already has this address") || strings.Contains(note, "s3cret") {
		t.Errorf("the second addition: exit code %d, printed %q and %q", code, out, note)
	}

	for _, c := range []struct {
		note      string
		arguments []string
	}{{"until", nil}, {"until", []string{"--overlap", "2h"}}, {"not used any more", []string{"--now"}}} {
		arguments := append([]string{"subscriber", "rotate-secret", "--data-dir", dir, subscriber}, c.arguments...)
		code, out, note := run(t, arguments...)
		fresh := strings.TrimSpace(out)
		if code != 0 || !strings.HasPrefix(fresh, "whsec_") || fresh == secret || !strings.Contains(note, c.note) || strings.Contains(note, fresh) {
			t.Errorf("%v: exit code %d, printed %q and %q", c.arguments, code, out, note)
		}
		secret = fresh
	}

	succeed(t, "subscriber", "remove", "--data-dir", dir, subscriber)
	if list := succeed(t, "subscriber", "list", "--data-dir", dir); strings.Contains(list, subscriber) {
		t.Errorf("subscribers after the removal:\n%s", list)
	}
}

// idOf returns the first cell of the line that contains the text.
func idOf(t *testing.T, table, text string) string {
	t.Helper()
	for line := range strings.Lines(table) {
		if strings.Contains(line, text) {
			return strings.Fields(line)[0]
		}
	}
	t.Fatalf("no line has %q:\n%s", text, table)
	return ""
}

func TestSubscriberWithAnEmailAddress(t *testing.T) {
	dir := seeded(t)
	hostname, _ := page(t, dir)
	add := func(arguments ...string) (code int, out, note string) {
		return run(t, append([]string{"subscriber", "add", "--data-dir", dir, "--page", hostname}, arguments...)...)
	}
	code, out, note := add("--email", "ops@customer.example")
	id := strings.TrimSpace(out)
	if code != 0 || note != "" {
		t.Fatalf("exit code %d, printed %q and %q", code, out, note)
	}
	list := succeed(t, "subscriber", "list", "--data-dir", dir)
	if idOf(t, list, "ops@customer.example") != id {
		t.Errorf("subscribers:\n%s", list)
	}
	if code, _, note := add("--email", "Ops@customer.example"); code != 1 || !strings.Contains(note, "already has this address") {
		t.Errorf("added again: exit code %d, printed %q", code, note)
	}
}

func TestWebhooksOfDemosAreAllowedByAFlag(t *testing.T) {
	dir := seeded(t)
	hostname, _ := page(t, dir)
	add := []string{"subscriber", "add", "--data-dir", dir, "--page", hostname, "--webhook", "http://127.0.0.1:3000/s3cret"}
	if code, out, note := run(t, add...); code != 2 || out != "" || strings.Contains(note, "s3cret") {
		t.Errorf("without the flag: exit code %d, printed %q and %q", code, out, note)
	}
	succeed(t, append(add, "--allow-http")...)
	list := succeed(t, "subscriber", "list", "--data-dir", dir)
	idOf(t, list, "http://127.0.0.1:3000/…")
}

// letters inserts dead letters of a subscriber, and returns the id of the first.
func letters(t *testing.T, dir, subscriber string, number int, at time.Time) (first string) {
	t.Helper()
	db := database(t, dir)
	_, err := db.Exec(`INSERT OR IGNORE INTO notifications (id, team_id, status_page_id, incident_id, update_id, event, suppressed, created_at)
		SELECT u.id, i.team_id, i.status_page_id, i.id, u.id, 'incident.created', 1, 1
		FROM incident_updates u JOIN incidents i ON i.id = u.incident_id WHERE i.status_page_id IS NOT NULL`)
	testkit.Must(t, err)
	_, err = db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO deliveries (id, subscriber_id, channel, notification_id, state, attempts, created_at, finished_at, last_error)
		SELECT 'letter-' || s.id || '-' || i, s.id, s.channel, k.id, 'dead', 15, ?2, ?2, 'status 500' || char(10) || char(27) || '[31m'
		FROM n, subscribers s JOIN (SELECT id, row_number() OVER (ORDER BY id) AS number FROM notifications) k ON k.number = n.i
		WHERE s.id = ?3`, number, at.UnixNano(), subscriber)
	testkit.Must(t, err)
	return "letter-" + subscriber + "-1"
}

func TestDeadLettersAreListedAndRetried(t *testing.T) {
	dir := seeded(t)
	hostname, _ := page(t, dir)
	s := serve(t, "--data-dir", dir) // all commands work beside a server
	var subscribers []string
	for _, address := range []string{"ops@customer.example", "dev@customer.example"} { // emails wait without an SMTP server
		id := succeed(t, "subscriber", "add", "--data-dir", dir, "--page", hostname, "--email", address)
		subscribers = append(subscribers, strings.TrimSpace(id))
	}
	first := letters(t, dir, subscribers[0], 3, time.Now())
	letters(t, dir, subscribers[1], 2, time.Now())
	list := succeed(t, "delivery", "list", "--data-dir", dir, "--state", "dead", "--subscriber", subscribers[0])
	if lines := strings.Split(strings.TrimSpace(list), "\n"); len(lines) != 4 || !strings.Contains(lines[1], "status 500") || strings.ContainsRune(list, 27) {
		t.Errorf("dead letters:\n%q", list)
	}
	if list := succeed(t, "delivery", "list", "--data-dir", dir, "--limit", "2"); strings.Count(list, "\n") != 3 {
		t.Errorf("two deliveries:\n%s", list)
	}
	if code, _, note := run(t, "delivery", "retry", "--data-dir", dir, first, "unknown"); code != 1 || !strings.Contains(note, "not found") {
		t.Errorf("an unknown id: exit code %d, printed %q", code, note)
	}
	dead := func() int {
		return strings.Count(succeed(t, "delivery", "list", "--data-dir", dir, "--state", "dead"), "\nletter-")
	}
	if dead() != 5 {
		t.Errorf("%d dead letters after a retry that failed", dead())
	}
	if out := succeed(t, "delivery", "retry", "--data-dir", dir, first); out != "1 retried\n" || dead() != 4 {
		t.Errorf("printed %q, %d dead letters", out, dead())
	}
	if out := succeed(t, "delivery", "retry", "--data-dir", dir, first); out != "1 retried\n" || dead() != 4 { // it waits now
		t.Errorf("retried twice: printed %q, %d dead letters", out, dead())
	}
	if out := succeed(t, "delivery", "retry", "--data-dir", dir, "--dead", "--subscriber", subscribers[1]); out != "2 retried\n" || dead() != 2 {
		t.Errorf("printed %q, %d dead letters", out, dead())
	}
	if out := succeed(t, "delivery", "retry", "--data-dir", dir, "--dead"); out != "2 retried\n" || dead() != 0 {
		t.Errorf("printed %q, %d dead letters", out, dead())
	}
	if code := s.stop(); code != 0 {
		t.Errorf("serve ended with %d", code)
	}
}

func TestAgeAndOverlapFollowTheClock(t *testing.T) {
	dir := seeded(t)
	hostname, _ := page(t, dir)
	now := time.Now().Truncate(time.Second)
	at := func(clock time.Time, arguments ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		environment := command.Environment{Out: &out, Err: &errs, Clock: func() time.Time { return clock }}
		if code := command.Run(t.Context(), arguments, environment); code != 0 {
			t.Fatalf("%v: exit code %d, %s", arguments, code, &errs)
		}
		return out.String() + errs.String()
	}
	added := at(now, "subscriber", "add", "--data-dir", dir, "--page", hostname, "--email", "ops@customer.example")
	at(now, "delivery", "retry", "--data-dir", dir, letters(t, dir, strings.TrimSpace(added), 1, now))
	list := at(now.Add(90*time.Minute), "delivery", "list", "--data-dir", dir)
	if !strings.Contains(list, " 1h30m0s ") || !strings.Contains(list, now.UTC().Format(time.RFC3339)) {
		t.Errorf("deliveries:\n%s", list)
	}
	note := at(now, "subscriber", "add", "--data-dir", dir, "--page", hostname, "--webhook", secretURL)
	id := strings.TrimSuffix(strings.Fields(note)[4], ".")
	note = at(now, "subscriber", "rotate-secret", "--data-dir", dir, id, "--overlap", "90m")
	if until := now.Add(90 * time.Minute).UTC().Format(time.RFC3339); !strings.Contains(note, until) {
		t.Errorf("no %s in %q", until, note)
	}
}

func TestWrongUsageOfSubscriberAndDelivery(t *testing.T) {
	dir := t.TempDir()
	if code, _, errs := run(t, "team", "create", "--data-dir", dir, "Harbour"); code != 0 {
		t.Fatal(errs)
	}
	for _, c := range []usage{
		{0, "subscriber --help", "rotate-secret"},
		{0, "subscriber add --help", "--allow-http"},
		{0, "delivery retry --help", "--dead"},
		{2, "subscriber add --page p --email a@b.example", `"data-dir" not set`},
		{2, "subscriber add --data-dir DIR --email a@b.example", `"page" not set`},
		{2, "subscriber add --data-dir DIR --page p", "[email webhook]"},
		{2, "subscriber add --data-dir DIR --page p --email a@b.example --webhook " + secretURL, "[email webhook]"},
		{2, "subscriber add --data-dir DIR --page p --email a@b.example --allow-http", "--allow-http"},
		{2, "subscriber add --data-dir DIR --page p --email nobody", "email"},
		{2, "subscriber add --data-dir DIR --page p --email=", "email"},
		{2, "subscriber add --data-dir DIR --page p --webhook ftp://s3cret.example/s3cret", "https://"},
		{2, "subscriber rotate-secret --data-dir DIR 42 --now --overlap 1h", "[now overlap]"},
		{2, "subscriber rotate-secret --data-dir DIR 42 --overlap -1h", "--overlap"},
		{2, "subscriber rotate-secret --data-dir DIR 42 --overlap 721h", "--overlap must be 0 to 720h"},
		{2, "subscriber remove --data-dir DIR", "the argument ID is missing"},
		{2, "delivery list --data-dir DIR --state lost", "lost"},
		{2, "delivery list --data-dir DIR --limit 0", "--limit"},
		{2, "delivery retry --data-dir DIR", "--dead"},
		{2, "delivery retry --data-dir DIR --dead 42", "--dead"},
		{2, "delivery retry --data-dir DIR --subscriber 42 43", "--subscriber"},
		{1, "subscriber add --data-dir DIR --page unknown --email a@b.example", "not found"},
		{1, "subscriber list --data-dir DIR --page unknown", "not found"},
		{1, "subscriber remove --data-dir DIR 42", "not found"},
		{1, "subscriber rotate-secret --data-dir DIR 42", "not found"},
		{1, "delivery retry --data-dir DIR 42", "not found"},
		{1, "delivery retry --data-dir DIR --dead --subscriber 42", "not found"},
		{1, "delivery list --data-dir DIR --subscriber 42", "not found"},
		{0, "delivery retry --data-dir DIR --dead", "0 retried"},
		{1, "delivery retry --data-dir DIR/typo --dead", "no database in " + dir + "/typo"},
	} {
		c.arguments = strings.ReplaceAll(c.arguments, "DIR", dir)
		c.check(t)
	}
}
