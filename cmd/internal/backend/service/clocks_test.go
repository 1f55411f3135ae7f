package service_test

import (
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/service"
)

// startFast serves with a clock that is two months ahead of the wall clock, as after a day of opsdev --speed 60.
func startFast(t *testing.T) (s *system, wall *clock) {
	t.Helper()
	wall = &clock{now: start()}
	return startWith(t, service.Options{DataDir: t.TempDir(), WallClock: wall.Now}, &clock{now: start().Add(60 * day)}), wall
}

func TestDeliveriesHaveTimesOfTheWallClock(t *testing.T) {
	s, wall := startFast(t)
	own := s.team("harbour")
	s.add(emailOf(own))
	asked, added := s.deliveries()[0], s.subscribers()[0]
	if !asked.CreatedAt.Equal(wall.Now()) || !asked.DueAt.Equal(wall.Now()) || added.CreatedAt.Before(s.clock.Now()) {
		t.Errorf("%v is asked to confirm by %v", added, asked)
	}
	s.exec("UPDATE deliveries SET state = 'dead', due_at = NULL, finished_at = created_at")
	s.clock.Move(day)
	if _, err := s.backend.AddSubscriber(t.Context(), emailOf(own)); err == nil {
		t.Error("asked again within ten minutes of the wall clock")
	}
	wall.Move(10 * time.Minute)
	testkit.Must(t, s.backend.RetryDeliveries(t.Context(), []string{asked.ID}))
	if retried := s.deliveries()[0]; !retried.CreatedAt.Equal(wall.Now()) || !retried.DueAt.Equal(wall.Now()) {
		t.Errorf("retried: %v", retried)
	}
}

func TestDeliveriesAndSecretsExpireByTheWallClock(t *testing.T) {
	s, wall := startFast(t)
	subscriber := s.add(webhookOf(s.team("harbour"))).ID
	_, err := s.backend.RotateSecret(t.Context(), subscriber, day)
	testkit.Must(t, err)
	s.exec(`INSERT INTO deliveries (id, subscriber_id, channel, state, created_at, finished_at)
		VALUES ('delivered', ?1, 'webhook', 'delivered', ?2, ?2), ('dead', ?1, 'webhook', 'dead', ?2, ?2)`, subscriber, wall.Now().UnixNano())
	for _, c := range []struct{ pass, ahead time.Duration }{
		{day - 1, 40 * day}, {1, 0}, {6*day + 1, 0}, {23 * day, 0},
	} {
		s.clock.Move(c.ahead)
		wall.Move(c.pass)
		s.maintain()
		age := wall.Now().Sub(start())
		var secrets int
		testkit.Must(t, s.file().QueryRow("SELECT count(previous_secret) FROM subscribers").Scan(&secrets))
		deliveries := 0
		for _, retention := range []time.Duration{7 * day, 30 * day} {
			if age <= retention {
				deliveries++
			}
		}
		if (secrets == 1) != (age < day) || s.count("deliveries") != deliveries {
			t.Errorf("after %v: %d secrets, %d deliveries", age, secrets, s.count("deliveries"))
		}
	}
}

// The command line has no fast clock, and its writes have times after those of the server.
func TestAddressIsAskedAgainBesideAFastClock(t *testing.T) {
	s, wall := startFast(t)
	own := s.team("harbour")
	s.add(emailOf(own))
	s.exec("UPDATE deliveries SET state = 'delivered', due_at = NULL, finished_at = created_at")
	wall.Move(10 * time.Minute)
	s.clock.Move(6 * day)
	s.create(newIncident(own, "Slow"))
	console, err := service.Open(t.Context(), service.Options{DataDir: s.dir, Clock: wall.Now, WallClock: wall.Now})
	testkit.Must(t, err)
	_, err = console.AddSubscriber(t.Context(), emailOf(own))
	testkit.Must(t, err)
	testkit.Must(t, console.Close())
	s.clock.Move(6 * day)
	s.maintain()
	if len(s.subscribers()) != 1 {
		t.Error("the subscriber expired before its time")
	}
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
