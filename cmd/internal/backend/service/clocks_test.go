package service_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// A clock that was days ahead for a while does not hold the team's times back, and the repair moves
// what it left to the present.
func TestClockThatWasSetForward(t *testing.T) {
	var log testkit.Buffer
	s := startWith(t, service.Options{DataDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))}, &clock{now: start()})
	own := s.team("harbour")
	s.clock.Move(10 * day)
	s.create(newIncident(own, "ahead 1"))
	s.create(newIncident(own, "ahead 2"))
	s.clock.Move(-10*day + time.Second)
	for _, title := range []string{"now 1", "now 2"} {
		if created := s.create(newIncident(own, title)).GetCreatedAt().AsTime(); created.Sub(s.clock.Now()) > time.Second {
			t.Errorf("%s is of %v, at %v", title, created, s.clock.Now())
		}
	}
	s.maintain()
	faults := func() int {
		found, err := s.backend.Store().Verify(t.Context(), s.clock.Now())
		testkit.Must(t, err)
		return len(found)
	}
	if !strings.Contains(log.String(), "verify --repair-times --data-dir "+s.dir) || faults() != 1 {
		t.Errorf("%d faults, log:\n%s", faults(), log.String())
	}
	s.clock.Move(time.Second)
	changed, err := s.backend.Store().RepairTimes(t.Context(), s.clock.Now)
	testkit.Must(t, err)
	s.create(newIncident(own, "after"))
	titles := titlesOf(s.incidents(own))
	newest := s.incidents(own)[4].GetCreatedAt().AsTime()
	if titles != "now 1, now 2, ahead 1, ahead 2, after" || faults() != 0 || changed == 0 || newest.Sub(s.clock.Now()) > time.Second {
		t.Errorf("%d changed: %s, the last of %v; %d faults", changed, titles, newest, faults())
	}
}

// What a clock that was set forward leaves beside the writes of the API is repaired too, so that
// later reports are not late ones.
func TestRepairOfReportsAndSubscribers(t *testing.T) {
	s, own := startTeam(t)
	s.deliver(own, s.add(webhookOf(own)).ID)
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertScheduledCommand(ctx, query.InsertScheduledCommandParams{ID: "nightly", TeamID: own.id, ServerID: own.server, Name: "Backup"})
	})
	ahead := s.clock.Now().Add(40 * day).UnixNano()
	s.exec("UPDATE scheduled_commands SET last_run_at = ?", ahead)
	s.exec("UPDATE servers SET last_seen_at = ?1, created_at = ?1", ahead)
	s.exec("UPDATE teams SET created_at = ?", ahead)
	s.exec("UPDATE status_pages SET created_at = ?", ahead)
	s.exec(`INSERT INTO server_commands (id, team_id, server_id, command, source, status, created_at, started_at, finished_at)
		VALUES ('command', ?, ?, 'uptime', 'manual', 'failed', ?3, ?3 + 1, ?3 + 2)`, own.id, own.server, ahead)
	s.exec("UPDATE subscribers SET previous_secret = x'00', previous_secret_until = ?", ahead)
	verify := func() []string {
		found, err := s.backend.Store().Verify(t.Context(), s.clock.Now())
		testkit.Must(t, err)
		return found
	}
	due := func(after time.Duration) {
		s.exec("UPDATE deliveries SET due_at = ?", s.clock.Now().Add(after).UnixNano())
	}
	if due(4*time.Hour + 48*time.Minute); len(verify()) != 0 {
		t.Errorf("a message after its longest pause: %q", verify())
	}
	due(6 * time.Hour)
	if found := verify(); len(found) != 1 || !strings.Contains(found[0], s.deliveries()[0].ID) {
		t.Errorf("%q", found)
	}
	if _, err := s.backend.Store().RepairTimes(t.Context(), s.clock.Now); err != nil || len(verify()) != 0 {
		t.Errorf("%v, left %q", err, verify())
	}
	now := s.clock.Now()
	for column, latest := range map[string]time.Time{
		"max(s.created_at, t.created_at, p.created_at) FROM servers s, teams t, status_pages p":       now,
		"finished_at FROM server_commands WHERE created_at < started_at AND started_at < finished_at": now,
		"last_run_at FROM scheduled_commands":                                                         now, "last_seen_at FROM servers": now,
		"previous_secret_until FROM subscribers": now.Add(30 * day), "due_at FROM deliveries": now,
	} {
		at := storetest.Column[int64](t, s.file(), "SELECT "+column)[0]
		if time.Unix(0, at).After(latest) {
			t.Errorf("%s: %v", column, time.Unix(0, at))
		}
	}
}

// The repair reads the clock in its transaction: no time that another process writes before it is
// later.
func TestRepairReadsTheClockWhenNoOtherWrites(t *testing.T) {
	s, _ := startTeam(t)
	_, err := s.backend.Store().RepairTimes(t.Context(), func() time.Time {
		if tx, err := s.file().Begin(); err == nil {
			t.Error("another process can write")
			testkit.Must(t, tx.Rollback())
		}
		return s.clock.Now()
	})
	testkit.Must(t, err)
}

func titlesOf(incidents []*incidentv1.Incident) string {
	var titles []string
	for _, incident := range incidents {
		titles = append(titles, incident.GetTitle())
	}
	return strings.Join(titles, ", ")
}

// The monitor follows its checks at once, and its outage ends after the usual time.
func TestClockThatIsSetBack(t *testing.T) {
	s, w := startProbed(t)
	s.probes(w, "udd")
	s.clock.Move(-24 * time.Hour)
	s.probes(w, "d")
	if s.letter(w) != "d" || len(s.incidents(w.team)) != 1 {
		t.Errorf("status %s, incidents %v", s.letter(w), s.incidents(w.team))
	}
	s.probes(w, "uu")
	s.clock.Move(-24 * time.Hour)
	s.probes(w, "uuuuu")
	if s.incidents(w.team)[0].ResolvedAt != nil {
		t.Error("the outage ended before its time")
	}
	s.probes(w, "u")
	if got := s.state(w); s.incidents(w.team)[0].ResolvedAt == nil || got.GetLastStatusChangeAt().AsTime().After(s.clock.Now()) {
		t.Errorf("the outage has not ended: monitor %v", got)
	}
}
