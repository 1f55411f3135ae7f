package inventory_test

import (
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/inventory"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

func now() time.Time { return time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC) }

func actor() *audit.Actor {
	return &audit.Actor{ID: "6f2b8f0e-3f5c-4d1a-9b1e-0a7c5d3e2f10", IPAddress: "192.0.2.7"}
}

// pier is a team with a row of each kind.
const pier = `teams:
  - name: Pier
    plan: ai
    groups: [{name: Web, color: '#112233'}, {name: Jobs, color: '#445566'}]
    servers:
      - {name: web-1, host: web-1.pier.example, os: Debian, group: Web, tags: [a, 'b c'],
         scheduled: [{name: Backup, command: backup --all, cron: '0 1 * * *'}]}
    monitors:
      - {name: API, type: http, target: 'https://api.pier.example', interval_seconds: 60, opens_incidents: true}
      - {name: Portal, type: http, target: 'https://portal.pier.example', interval_seconds: 60, disabled: true}
    pages:
      - name: Pier
        hostname: status.pier.example
        visibility: public
        color: '#112233'
        description: How we are doing.
        components: [{name: API, monitor: API}, {name: Phone, group: Support}]
        subscribers: [{email: ana@customer.example}, {webhook: 'https://hooks.customer.example/secret-path'}]
`

// A world is a backend with a database.
type world struct {
	t       *testing.T
	backend *service.Backend
	db      *sql.DB
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	backend, err := service.Open(t.Context(), service.Options{DataDir: dir, Clock: now})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, backend.Close()) })
	return &world{t: t, backend: backend, db: storetest.Open(t, dir, "")}
}

// try applies a file.
func (w *world) try(text string, o inventory.Options) (result inventory.Result, err error) {
	w.t.Helper()
	o.Clock, o.Backend = now, w.backend
	file, err := inventory.Parse([]byte(text))
	if err != nil {
		return result, err
	}
	return result, w.backend.Store().Write(w.t.Context(), func(q *query.Queries) error {
		result, err = inventory.Apply(w.t.Context(), q, file, o)
		return err
	})
}

// apply applies a file and returns a line for each row of the result, as the command prints them.
func (w *world) apply(text string) (lines []string) {
	w.t.Helper()
	result, err := w.try(text, inventory.Options{Actor: actor()})
	testkit.Must(w.t, err)
	return linesOf(result)
}

func linesOf(r inventory.Result) (lines []string) {
	for _, c := range r.Changes {
		if len(c.Fields) == 0 {
			lines = append(lines, "+ "+c.Kind+" "+c.Path)
			continue
		}
		lines = append(lines, "~ "+c.Kind+" "+c.Path+": "+strings.Join(c.Fields, ", "))
	}
	for _, kept := range r.Kept {
		lines = append(lines, "= "+kept)
	}
	return lines
}

func (w *world) export(state bool) (text string) {
	w.t.Helper()
	testkit.Must(w.t, w.backend.Store().Read(w.t.Context(), func(q *query.Queries) error {
		out, err := inventory.Export(w.t.Context(), q, state)
		text = string(out)
		return err
	}))
	return text
}

// count returns the number that a query returns.
func (w *world) count(query string) int {
	w.t.Helper()
	return storetest.Column[int](w.t, w.db, query)[0]
}

func wantLines(t *testing.T, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// replaced returns the file with other texts, each of which it has.
func replaced(t *testing.T, file string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(file, pairs[i]) {
			t.Fatalf("the file has no %q", pairs[i])
		}
		file = strings.Replace(file, pairs[i], pairs[i+1], 1)
	}
	return file
}

func TestApply_CreatesChangesAndKeeps(t *testing.T) {
	w := newWorld(t)
	all := []string{
		"+ team Pier", "+ server group Pier/Web", "+ server group Pier/Jobs", "+ server Pier/web-1", "+ scheduled command Pier/web-1/Backup",
		"+ monitor Pier/API", "+ monitor Pier/Portal", "+ status page Pier/Pier", "+ component Pier/Pier/API", "+ component Pier/Pier/Phone",
		"+ subscriber Pier/Pier/ana@customer.example", "+ subscriber Pier/Pier/https://hooks.customer.example/…",
	}
	wantLines(t, w.apply(pier), all)
	wantLines(t, w.apply(pier), nil)
	wantLines(t, w.apply(replaced(t, pier, "ana@customer", "Ana@Customer", "https://hooks.customer.example/", "HTTPS://Hooks.customer.example:443/")), nil)
	changed := replaced(t, pier, "plan: ai", "plan: basic", "'#112233'}", "'#000000'}", "web-1.pier", "www.pier", "group: Web, tags: [a, 'b c']",
		"group: Jobs, tags: [a, b, c]", "0 1 * * *", "0 2 * * *", "60, opens_incidents", "56000, opens_incidents",
		"https://portal", "http://portal", ", disabled: true", "",
		"description: How we are doing.", "suspended: true", "{name: API, monitor: API}, {name: Phone, group: Support}",
		"{name: Phone, group: Support, monitor: Portal}, {name: Fax}", "{email: ana@customer.example}, ", "")
	wantLines(t, w.apply(changed), []string{
		`~ team Pier: plan "ai" → "basic"`, `~ server group Pier/Web: color "#112233" → "#000000"`,
		`~ server Pier/web-1: host "web-1.pier.example" → "www.pier.example", tags ["a" "b c"] → ["a" "b" "c"], group "Web" → "Jobs"`,
		`~ scheduled command Pier/web-1/Backup: cron "0 1 * * *" → "0 2 * * *"`,
		"~ monitor Pier/API: interval_seconds 60 → 56000",
		`~ monitor Pier/Portal: target "https://portal.pier.example" → "http://portal.pier.example", disabled true → false`,
		`~ status page Pier/Pier: description "How we are doing." → "", suspended false → true`,
		`~ component Pier/Pier/Phone: monitor "" → "Portal", status "operational" → "", position 2 → 1`, "+ component Pier/Pier/Fax",
		"= component Pier/Pier/API", "= subscriber Pier/Pier/ana@customer.example",
	})
	kept := []string{"= component Pier/Pier/API", "= subscriber Pier/Pier/ana@customer.example"}
	wantLines(t, w.apply(changed), kept)
	// %q has one text for the numbers of all surrogates.
	wantLines(t, w.apply(replaced(t, changed, "56000", "56001")), append([]string{"~ monitor Pier/API: interval_seconds 56000 → 56001"}, kept...))
	if n := w.count("SELECT count(*) FROM components c JOIN monitors m ON m.id = c.monitor_id WHERE m.name = 'Portal' AND m.enabled"); n != 1 {
		t.Errorf("%d linked components", n)
	}
	wantLines(t, w.apply("teams: [{name: Quay, plan: ai}]"), []string{"+ team Quay", "= team Pier"})
	wantLines(t, w.apply("teams: [{name: Quay, plan: ai, limit_class: gold}]"), []string{`~ team Quay: limit_class "" → "gold"`, "= team Pier"})
	testkit.Contains(t, w.export(false), "limit_class: gold")
}

func TestApply_KeepsTheState(t *testing.T) {
	w := newWorld(t)
	w.apply(pier)
	_, err := w.db.Exec("UPDATE monitors SET status = 'down', last_check_at = 5; UPDATE servers SET last_seen_at = 7")
	testkit.Must(t, err)
	w.apply(replaced(t, pier, "interval_seconds: 60", "status: up, last_check_at: 2026-01-01T00:00:00Z, interval_seconds: 30", "os: Debian", "os: BSD"))
	if n := w.count("SELECT count(*) FROM monitors WHERE status = 'down' AND last_check_at = 5 AND interval_seconds = 30"); n != 1 {
		t.Error("the state of a monitor changed, or its interval did not")
	}
	if n := w.count("SELECT count(*) FROM servers WHERE last_seen_at = 7 AND os = 'BSD'"); n != 1 {
		t.Error("the state of a server changed, or its system did not")
	}
}

func TestApply_AuditEntriesHaveTheActor(t *testing.T) {
	w := newWorld(t)
	w.apply(pier)
	w.apply(replaced(t, pier, "os: Debian", "os: BSD"))
	actions := storetest.Column[string](t, w.db,
		"SELECT action_type FROM audit_entries WHERE actor_id = ? AND ip_address = ? ORDER BY created_at", actor().ID, actor().IPAddress)
	wantLines(t, actions, []string{
		"team.created", "server_group.created", "server_group.created", "server.created", "scheduled_command.created", "monitor.created",
		"monitor.created", "status_page.created", "component.created", "component.created", "subscriber.added", "subscriber.added",
		"server.updated",
	})
	if n := storetest.Count(t, w.db, "audit_entries"); n != len(actions) {
		t.Errorf("%d of %d entries have the actor", len(actions), n)
	}
}

// Secrets are in the result of the creation, and nowhere else.
func TestWebhookGetsASecretThatIsNotExported(t *testing.T) {
	w := newWorld(t)
	result, err := w.try(pier, inventory.Options{Actor: actor()})
	testkit.Must(t, err)
	if len(result.Secrets) != 1 || !strings.HasPrefix(result.Secrets[0].Secret, "whsec_") {
		t.Fatalf("secrets %v", result.Secrets)
	}
	text := w.export(true)
	if strings.Contains(text, result.Secrets[0].Secret) || !strings.Contains(text, "secret-path") {
		t.Errorf("exported:\n%s", text)
	}
	if n := w.count("SELECT count(*) FROM subscribers"); n != 2 {
		t.Errorf("%d subscribers", n)
	}
}

func TestExportOfTheDemoIsTheSameAfterAnApply(t *testing.T) {
	w, copied := newWorld(t), newWorld(t)
	testkit.Must(t, demo.SeedWithSubscribers(t.Context(), w.backend.Store(), authn.TokenFormat{Prefix: "ops_"}, now()))
	if n := w.count("SELECT count(*) FROM audit_entries"); n != 346 {
		t.Errorf("the demo data has %d audit entries: without an actor, Apply must write none", n)
	}
	exported := w.export(true)
	copied.apply(exported)
	if diff := cmp.Diff(exported, copied.export(true)); diff != "" {
		t.Error(diff)
	}
	wantLines(t, w.apply(exported), nil)
}

// The example of the documents is the demo's second team.
func TestExampleFileIsATeamOfTheDemo(t *testing.T) {
	w, seeded := newWorld(t), newWorld(t)
	example, err := os.ReadFile("../demo/lighthouse.yaml")
	testkit.Must(t, err)
	w.apply(string(example))
	testkit.Must(t, demo.Seed(t.Context(), seeded.backend.Store(), authn.TokenFormat{Prefix: "ops_"}, now()))
	ids := regexp.MustCompile(`(- )?\bid: \S+\n +`)
	_, want, found := strings.Cut(ids.ReplaceAllString(seeded.export(false), "$1"), "  - name: Lighthouse\n")
	if diff := cmp.Diff("teams:\n  - name: Lighthouse\n"+want, ids.ReplaceAllString(w.export(false), "$1")); !found || diff != "" {
		t.Error(diff)
	}
}

func TestApply_RefusesInvalidFiles(t *testing.T) {
	long := strings.Repeat("x", 4096)
	w := newWorld(t)
	w.apply(pier) // bounds are for changes too
	before := w.export(true)
	for want, pairs := range map[string][]string{
		"field nam not found": {"name: web-1", "nam: web-1"},
		"line 3, at '/teams/0/plan': value must be one of 'basi":  {"plan: ai", "plan: gold"},
		"at '/teams/0/limit_class': 'a b' does not match":         {"plan: ai", "plan: ai\n    limit_class: a b"},
		"at '/teams/0/limit_class': maxLength":                    {"plan: ai", "plan: ai\n    limit_class: " + long[:65]},
		"at '/teams/0/monitors/0/interval_seconds': minimum":      {"interval_seconds: 60", "interval_seconds: 0"},
		"at '/teams/0/servers/0': missing property 'host'":        {"host: web-1.pier.example, ", ""},
		"line 9, at '/teams/0/monitors/0/type': 'HTTP' does not":  {"type: http", "type: HTTP"},
		"at '/teams/0/groups/0/color'":                            {"'#112233'", "blue"},
		`line 4, at '/teams/0/groups/1': another one has the na`:  {"name: Jobs", "name: Web"},
		"at '/teams/0/servers/0/id': must be a UUID":              {"{name: web-1", "{id: A, name: web-1"},
		"value must be one of":                                    {"name: Phone", "status: fine, name: Phone"},
		"has the status of its monitor: remove status":            {"monitor: API", "monitor: API, status: outage"},
		`server web-1 of team Pier: there is no group "Webs"`:     {"group: Web", "group: Webs"},
		`component API of team Pier: there is no monitor "APIs"`:  {"monitor: API", "monitor: APIs"},
		"at '/teams/0/servers/0/scheduled/0/cron'":                {"0 1 * * *", "at night"},
		"at '/teams/0/servers/0/scheduled/0/cron': must be five":  {"0 1 * * *", "TZ=Asia/Tokyo 0 1 * * *"},
		"cron': must be five fields":                              {"0 1 * * *", "@daily"},
		"at '/teams/0/groups/0/position': maximum":                {"{name: Web", "{position: 4294967297, name: Web"},
		"last_exit_code': maximum":                                {"name: Backup", "last_exit_code: 4294967296, name: Backup"},
		"consecutive_failures': minimum":                          {"name: Backup", "consecutive_failures: -1, name: Backup"},
		"at '/teams/0/servers/0': its texts must have no control": {"'b c'", `"b\nc"`},
		"at '/teams/0/servers/0': its texts have":                 {"os: Debian", "os: " + long},
		"at '/teams/0': its texts have":                           {"name: Pier", "name: " + long},
		"at '/teams/0/pages/0/components/1': its texts have":      {"group: Support", "group: " + long[:1100]},
		"at '/teams/0/created_at': must be a time":                {"plan: ai", "plan: ai\n    created_at: 1969-12-31T23:59:59Z"},
		"at '/teams/0/servers/0/last_seen_at': must be a time":    {"os: Debian", "last_seen_at: 2300-01-01T00:00:00Z"},
		"at '/teams/0/monitors/0/last_check_at': must be a time":  {"type: http", "last_check_at: 2026-03-14T15:10:27Z, type: http"},
		"must have no control characters":                         {"name: Phone", `name: "Pho\nne"`},
		"at '/teams/0/pages/0/subscribers/0': the email address":  {"ana@customer.example", "ana"},
		"at '/teams/0/pages/0/subscribers/1': the URL must begin": {"https://hooks", "http://hooks"},
		"is the address of another subscriber of the page":        {"webhook: 'https://hooks.customer.example/secret-path'", "email: ANA@customer.example"},
		"must have either email":                                  {"{webhook", "{email: a@b.example, webhook"},
		"one YAML document":                                       {"teams:", "teams: []\n---\nteams:"},
		"there is none":                                           {pier, "teams: []"},
	} {
		_, err := w.try(replaced(t, pier, pairs...), inventory.Options{Actor: actor()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		if strings.Contains(fmt.Sprint(err), "secret-path") {
			t.Errorf("%q: the error has the path of a webhook: %v", want, err)
		}
		if w.export(true) != before {
			t.Errorf("%q: it was written", want)
		}
	}
}

// References and statuses are not texts of the row.
func TestApply_BoundsAreThoseOfTheSchema(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 4000)
	component := long[:1024-len("Phone")]
	w.apply(replaced(t, pier, "name: Web,", "name: "+long+",", "group: Web", "group: "+long, "os: Debian", "os: "+long,
		"name: API, type: http, target: 'https://api.pier.example'",
		"name: API, status: degraded, last_check_at: 2026-03-14T15:10:26Z, type: http, target: "+long+long[:4096-4000-len("APIhttp")],
		"group: Support", "group: "+component+", status: maintenance"))
}

// A write that fails leaves nothing behind.
func TestApply_IsOneTransaction(t *testing.T) {
	w := newWorld(t)
	_, err := w.db.ExecContext(t.Context(), "CREATE TRIGGER refuse BEFORE INSERT ON status_pages BEGIN SELECT RAISE(ABORT, 'refused'); END")
	testkit.Must(t, err)
	_, err = w.try(pier, inventory.Options{Actor: actor()})
	if err == nil || !strings.Contains(err.Error(), "write the status page Pier/Pier: ") {
		t.Errorf("got %v", err)
	}
	if n := w.count("SELECT count(*) FROM teams"); n != 0 {
		t.Errorf("%d teams", n)
	}
}

// A hostname and a slug belong to one status page, of the file or of the database.
func TestApply_AddressesOfStatusPagesAreUnique(t *testing.T) {
	const other = "teams: [{name: Quay, plan: ai, pages: [{name: Q, hostname: %s, slug: %s, visibility: public, color: '#112233'}]}]"
	quay := func(hostname, slug string) string { return fmt.Sprintf(other, hostname, slug) }
	w := newWorld(t)
	w.apply(quay("a.example", "a"))
	w.apply(quay("b.example", "b"))
	for text, want := range map[string]string{
		replaced(t, pier, "hostname: status.pier.example", "hostname: b.example"):                                                                         "status page Pier/Pier: the status page Quay/Q has the hostname b.example",
		replaced(t, pier, "description:", "slug: b\n        description:"):                                                                                "status page Pier/Pier: the status page Quay/Q has the slug b",
		strings.Replace(quay("c.example", "c"), "pages: [", "pages: [{name: R, hostname: d.example, slug: c, visibility: public, color: '#112233'}, ", 1): "status page Quay/R: the status page Quay/Q has the slug c",
	} {
		if _, err := w.try(text, inventory.Options{Actor: actor()}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The schema has each key of the types, also of embedded ones, and no other.
func TestSchemaAgreesWithTheTypes(t *testing.T) {
	text, err := inventory.Schema()
	testkit.Must(t, err)
	keys := func(expression, text string) (list []string) {
		for _, found := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
			list = append(list, found[1])
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	source, err := os.ReadFile("types.go")
	testkit.Must(t, err)
	inSchema := slices.DeleteFunc(keys(`"([a-z_]+)": \{\n`, string(text)), func(key string) bool { return key == "properties" || key == "items" })
	wantLines(t, inSchema, keys("`yaml:\"([a-z_]+)", string(source)))
}
