package simulation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// simulated is how long TestHoursOfTheDemo moves the data.
const simulated = 8 * time.Hour

// One scenario, because its checks read the same data.
func TestHoursOfTheDemo(t *testing.T) {
	w := newWorld(t, t.TempDir(), begin(), 1)
	defer w.close()
	history := w.texts("SELECT c.id || c.status FROM server_commands c JOIN servers s ON s.id = c.server_id WHERE s.name = 'web-01'")
	allStates := 0
	for range simulated / time.Minute {
		w.advance(time.Minute)
		w.t = t
		if w.count("SELECT count(DISTINCT status) FROM monitors m JOIN teams t ON t.id = m.team_id WHERE t.name = 'Harbour'") == 3 {
			allStates++
		}
		if open := w.count(`SELECT count(*) FROM incidents i JOIN teams t ON t.id = i.team_id
			WHERE t.name = 'Harbour' AND i.status <> 'resolved'`); open < 4 {
			t.Fatalf("%d open incidents at %v", open, w.clock())
		}
		w.checkComponents()
	}
	if allStates < int(simulated/time.Minute)*8/10 {
		t.Errorf("monitors were in all three states in only %d minutes", allStates)
	}
	for name, check := range map[string]func(*world){
		"agents": checkAgents, "probes": checkProbes, "outages": checkOutages, "responders": checkResponders,
		"commands": checkCommands, "scheduled commands": checkScheduled, "audit log": checkAudit,
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			check(w)
		})
	}
	w.t = t
	if now := w.texts("SELECT c.id || c.status FROM server_commands c JOIN servers s ON s.id = c.server_id WHERE s.name = 'web-01'"); len(now) != 150 ||
		!slices.Equal(history, now) {
		t.Errorf("the history of web-01 changed: it has %d entries", len(now))
	}
}

// checkComponents compares the linked components with their monitors.
func (w *world) checkComponents() {
	w.t.Helper()
	team := w.texts("SELECT id FROM teams WHERE name = 'Harbour'")[0]
	for _, id := range w.texts("SELECT id FROM status_pages WHERE team_id = ?", team) {
		page, err := w.backend.Incidents().GetStatusPage(w.t.Context(), &incidentv1.GetStatusPageRequest{TeamId: team, StatusPageId: id})
		testkit.Must(w.t, err)
		for _, c := range page.GetComponents() {
			status := w.texts("SELECT m.status FROM components c JOIN monitors m ON m.id = c.monitor_id WHERE c.id = ?", c.GetId())
			want := map[string]incidentv1.PublicStatus{
				"up":       incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL,
				"degraded": incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED,
				"down":     incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE,
			}
			if len(status) > 0 && want[status[0]] != c.GetStatus() {
				w.t.Errorf("component %s: %v, its monitor is %s", c.GetName(), c.GetStatus(), status[0])
			}
		}
	}
}

func checkAgents(w *world) {
	start, end := begin().UnixNano(), begin().Add(simulated).UnixNano()
	minutes := int(simulated / time.Minute)
	w.none("servers that do not report each minute", `SELECT name FROM servers s WHERE last_seen_at IS NOT NULL AND
		(SELECT count(*) FROM server_metrics m WHERE m.server_id = s.id AND m.at > ?) NOT BETWEEN ? AND ?`, start, minutes-60, minutes)
	w.none("servers whose last point is not the time when they were seen", `SELECT name FROM servers s WHERE last_seen_at <>
		(SELECT max(at) FROM server_metrics m WHERE m.server_id = s.id)`)
	w.none("servers that are silent for long", "SELECT name FROM servers WHERE last_seen_at < ?", end-(12*time.Minute).Nanoseconds())
	w.none("values out of range", `SELECT at FROM server_metrics WHERE cpu_percent NOT BETWEEN 0 AND 100 OR ram_used_mb <= 0 OR
		ram_used_mb > ram_total_mb OR disk_used_gb <= 0 OR disk_used_gb > disk_total_gb`)
	w.none("jumps between the demo data and its continuation", `WITH hours AS (SELECT server_id, at > ? AS moved,
			avg(cpu_percent) AS cpu, avg(ram_used_mb) AS ram, avg(disk_used_gb) AS disk, max(disk_total_gb) AS total
			FROM server_metrics WHERE abs(at - ?) < ? GROUP BY 1, 2)
		SELECT a.server_id FROM hours a JOIN hours b USING (server_id) WHERE a.moved AND NOT b.moved AND
			(abs(a.cpu - b.cpu) > 10 OR abs(a.ram / b.ram - 1) > 0.1 OR abs(a.disk - b.disk) > b.total / 500)`,
		start, start, time.Hour.Nanoseconds())
	if n := w.count("SELECT count(*) FROM servers WHERE last_seen_at IS NULL"); n != 1 {
		w.t.Errorf("%d servers were never seen", n)
	}
	if n := w.count(`SELECT count(*) FROM (SELECT at - lag(at) OVER (PARTITION BY server_id ORDER BY at) AS gap FROM server_metrics WHERE at > ?)
		WHERE gap > ?`, start, (3 * time.Minute).Nanoseconds()); n < 5 {
		w.t.Errorf("%d times a server was silent", n)
	}
}

func checkProbes(w *world) {
	w.none("checks out of their interval", `SELECT m.name FROM (SELECT monitor_id,
			checked_at - lag(checked_at) OVER (PARTITION BY monitor_id ORDER BY checked_at) AS gap FROM monitor_checks WHERE checked_at > ?) c
		JOIN monitors m ON m.id = c.monitor_id
		WHERE c.gap <> m.interval_seconds * 1000000000`, begin().UnixNano())
	w.none("enabled monitors without a check", "SELECT name FROM monitors WHERE enabled AND coalesce(last_check_at, 0) < ?",
		w.clock().Add(-15*time.Minute).UnixNano())
	w.none("checks of disabled monitors", "SELECT name FROM monitors WHERE NOT enabled AND last_check_at > ?", begin().UnixNano())
	if names := w.texts(`SELECT m.name FROM monitors m JOIN teams t ON t.id = m.team_id
		WHERE t.name = 'Harbour' AND m.last_status_change_at IS NULL`); !slices.Equal(names, []string{"Mail relay"}) {
		w.t.Errorf("monitors that never changed: %v", names)
	}
}

func checkOutages(w *world) {
	first := w.count("SELECT min(created_at) FROM audit_entries WHERE action_type = 'monitor.down'")
	if after := time.Unix(0, int64(first)).Sub(begin()); after < 3*time.Minute || after > 4*time.Minute {
		w.t.Errorf("the first monitor went down after %v", after)
	}
	downs := w.count("SELECT count(*) FROM audit_entries WHERE action_type = 'monitor.down'")
	recoveries := w.count("SELECT count(*) FROM audit_entries WHERE action_type = 'monitor.recovered'")
	if downs < 30 || downs > 200 || recoveries < 30 {
		w.t.Errorf("monitors went down %d times and recovered %d times", downs, recoveries)
	}
	opened := w.count("SELECT count(*) FROM incidents WHERE title LIKE '% is down'")
	if resolved := w.count("SELECT count(*) FROM incidents WHERE title LIKE '% is down' AND status = 'resolved'"); opened < 15 || resolved < 10 {
		w.t.Errorf("outages opened %d incidents, of which %d are resolved", opened, resolved)
	}
	w.none("open incidents without an outage in progress", `SELECT title FROM incidents i WHERE title LIKE '% is down' AND status <> 'resolved'
		AND NOT EXISTS (SELECT 1 FROM monitors m WHERE m.incident_id = i.id)`)
	if n := w.count("SELECT count(*) FROM audit_entries WHERE action_type = 'component.status_changed'"); n < downs/2 {
		w.t.Errorf("components changed %d times, monitors went down %d times", n, downs)
	}
}

func checkResponders(w *world) {
	w.none("outages of which no person posted", `SELECT i.title FROM incidents i
		WHERE i.title LIKE '% is down' AND i.status = 'resolved' AND i.resolved_at - i.created_at > ? AND NOT EXISTS
			(SELECT 1 FROM incident_updates u WHERE u.incident_id = i.id AND u.status = 'identified')`, (20 * time.Minute).Nanoseconds())
	for _, suppressed := range []bool{false, true} {
		if n := w.count("SELECT count(*) FROM notifications WHERE event = 'incident.update_posted' AND suppressed = ?", suppressed); n == 0 {
			w.t.Errorf("no notification with suppressed %v", suppressed)
		}
	}
	demoIncidents := `SELECT count(*) FROM incidents WHERE title NOT LIKE '% is down' AND `
	if n := w.count(demoIncidents+"created_at < ? AND resolved_at > ?", begin().UnixNano(), begin().UnixNano()); n == 0 {
		w.t.Error("no old incident was resolved")
	}
	if n := w.count(demoIncidents+"created_at > ?", begin().UnixNano()); n == 0 || n > 10 {
		w.t.Errorf("people created %d incidents", n)
	}
	w.none("incidents whose last update has another status", `SELECT i.title FROM incidents i WHERE i.status <>
		(SELECT u.status FROM incident_updates u WHERE u.incident_id = i.id ORDER BY u.created_at DESC LIMIT 1)`)
}

func checkCommands(w *world) {
	statuses := w.texts("SELECT DISTINCT status FROM server_commands WHERE created_at > ? AND finished_at IS NOT NULL ORDER BY 1", begin().UnixNano())
	if got := strings.Join(statuses, " "); got != "cancelled failed succeeded timed_out" {
		w.t.Errorf("commands ended as %s", got)
	}
	if n, minutes := w.count("SELECT count(*) FROM server_commands WHERE created_at > ?", begin().UnixNano()), int(simulated/time.Minute); n < minutes/2 || n > minutes {
		w.t.Errorf("%d commands in %d minutes", n, minutes)
	}
	w.none("commands whose fields do not fit their status", `SELECT status FROM server_commands WHERE
		(started_at IS NULL) <> (status = 'queued') OR (finished_at IS NULL) <> (status IN ('queued', 'running')) OR
		(exit_code IS NULL) <> (finished_at IS NULL) OR (duration_ms IS NULL) <> (finished_at IS NULL) OR
		(status = 'succeeded') <> (coalesce(exit_code, 1) = 0) OR started_at < created_at OR finished_at < started_at OR
		finished_at IS NOT NULL AND abs((finished_at - started_at) / 1000000 - duration_ms) > 1`)
	w.none("commands that do not end", `SELECT c.command FROM server_commands c JOIN servers s ON s.id = c.server_id
		WHERE s.name <> 'web-01' AND c.status IN ('queued', 'running') AND c.created_at < ?`, w.clock().Add(-6*time.Minute).UnixNano())
}

func checkScheduled(w *world) {
	w.none("commands that do not run by their schedule", `SELECT name FROM scheduled_commands
		WHERE enabled AND cron LIKE '*/%' AND (last_run_at < ? OR last_run_at % 60000000000 <> 0)`, w.clock().Add(-20*time.Minute).UnixNano())
	w.none("disabled commands that ran", "SELECT name FROM scheduled_commands WHERE NOT enabled AND last_run_at > ?", begin().UnixNano())
	w.none("exit codes that do not fit the failures", `SELECT name FROM scheduled_commands
		WHERE last_run_at > ? AND (last_exit_code = 0) <> (consecutive_failures = 0)`, begin().UnixNano())
	for _, failing := range []bool{false, true} {
		if n := w.count("SELECT count(*) FROM scheduled_commands WHERE enabled AND (consecutive_failures > 0) = ?", failing); n == 0 {
			w.t.Errorf("no enabled command with failing %v", failing)
		}
	}
}

func checkAudit(w *world) {
	w.none("updates without an audit entry", `SELECT u.message FROM incident_updates u WHERE u.created_at > ? AND NOT EXISTS
		(SELECT 1 FROM audit_entries a WHERE a.team_id = u.team_id AND a.created_at = u.created_at AND a.resource_id = u.incident_id)`, begin().UnixNano())
	w.none("commands without an audit entry", `SELECT c.command FROM server_commands c WHERE c.created_at > ? AND NOT EXISTS
		(SELECT 1 FROM audit_entries a WHERE a.action_type = 'command.executed' AND a.resource_id = c.id AND a.created_at >= c.created_at)`,
		begin().UnixNano())
	w.none("changes of monitors without an audit entry", `SELECT m.name FROM monitors m WHERE m.last_status_change_at > ? AND NOT EXISTS
		(SELECT 1 FROM audit_entries a WHERE a.resource_id = m.id AND a.action_type LIKE 'monitor.%' AND a.created_at >= m.last_status_change_at)`,
		begin().UnixNano())
	w.none("entries of the future", "SELECT action_type FROM audit_entries WHERE created_at > ?", w.clock().UnixNano())
}
