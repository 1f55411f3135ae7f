package delivery_test

import (
	"flag"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"opsgate/backendclient/testkit"
)

// check compares the table and the attempts so far with the rules.
func (w *world) check() {
	synctest.Wait()
	const wrong = `SELECT count(*) FROM deliveries d WHERE (d.due_at IS NOT NULL) <> (d.state = 'waiting' AND NOT EXISTS (
		SELECT 1 FROM deliveries e WHERE e.subscriber_id = d.subscriber_id AND e.state = 'waiting' AND e.sequence < d.sequence))`
	var n int
	testkit.Must(w.t, w.file.QueryRow(wrong).Scan(&n))
	if n != 0 {
		w.t.Fatalf("%d deliveries are due that are not the first, or first and not due", n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.problems) > 0 {
		w.t.Fatalf("%q", w.problems)
	}
	for s, texts := range w.order {
		if !slices.IsSorted(texts) {
			w.t.Fatalf("%s received %q", s, texts)
		}
	}
}

// settle lets all receivers accept until nothing waits.
func (w *world) settle() {
	for s := range w.behaviour {
		w.setBehaviour(s, accepts)
	}
	<-time.After(61 * time.Second) // for attempts in progress
	for range 100 {
		<-time.After(1500 * time.Millisecond) // for polls
		w.check()
		var waiting int
		testkit.Must(w.t, w.file.QueryRow("SELECT count(*) FROM deliveries WHERE state = 'waiting'").Scan(&waiting))
		if waiting == 0 {
			return
		}
		w.step(time.Hour)
	}
	w.t.Fatal("deliveries wait for ever")
}

// checkEnd checks that each subscriber got each notification, or a dead letter, or was removed.
func (w *world) checkEnd() {
	alive := w.alive()
	expected := map[string]bool{}
	for update, subscribers := range w.notified {
		for _, s := range subscribers {
			if slices.Contains(alive, s) {
				expected[s+" "+update] = true
			}
		}
	}
	rows, err := w.file.Query("SELECT d.id, d.subscriber_id, n.update_id, n.suppressed, d.state, d.finished_at - d.created_at " +
		"FROM deliveries d JOIN notifications n ON n.id = d.notification_id")
	testkit.Must(w.t, err)
	defer rows.Close()
	for rows.Next() {
		var id, subscriber, update, state string
		var suppressed bool
		var age time.Duration
		testkit.Must(w.t, rows.Scan(&id, &subscriber, &update, &suppressed, &state, &age))
		delete(expected, subscriber+" "+update)
		switch {
		case !isUUID(id) || suppressed:
			w.t.Fatalf("delivery %s of %s, suppressed %v", id, update, suppressed)
		case state == "delivered" && !w.accepted[id]:
			w.t.Fatalf("delivery %s of %s was not accepted", id, update)
		case state == "dead" && !w.refused[id] && age < 24*time.Hour:
			w.t.Fatalf("delivery %s of %s died after %s", id, update, age)
		}
	}
	testkit.Must(w.t, rows.Err())
	if len(expected) > 0 {
		w.t.Fatalf("not delivered: %q", slices.Sorted(maps.Keys(expected)))
	}
	w.checkRemoved(alive)
}

// checkRemoved checks that only receivers that are gone were removed, with one audit entry each.
func (w *world) checkRemoved(alive []string) {
	for s := range w.behaviour {
		var audited int
		testkit.Must(w.t, w.file.QueryRow("SELECT count(*) FROM audit_entries WHERE action_type = 'subscriber.removed' AND "+
			"resource_type = 'subscriber' AND ip_address = '127.0.0.1' AND resource_id = ?", s).Scan(&audited))
		want := 0
		if !slices.Contains(alive, s) && !w.deleted[s] {
			want = 1
			if !w.gone[s] {
				w.t.Fatalf("%s was removed", s)
			}
		}
		if audited != want {
			w.t.Fatalf("%s has %d audit entries", s, audited)
		}
	}
}

// Whatever happens to receivers, subscribers and dispatchers, each notification is delivered or becomes a dead letter, in order.
func TestQueueKeepsItsPromises(t *testing.T) {
	base := t.TempDir()
	checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	testkit.Must(t, err)
	for made := 0; made < checks && !t.Failed(); { // in one bubble, rapid stops after 24 hours of the bubble's time
		synctest.Test(t, func(t *testing.T) {
			rapid.Check(struct{ testing.TB }{t}, func(t *rapid.T) {
				made++
				w := newWorld(t, filepath.Join(base, strconv.Itoa(made)))
				defer w.end()
				t.Repeat(w.actions())
				w.settle()
				w.checkEnd()
			})
		})
		if testing.Short() {
			return
		}
	}
}
