package delivery_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

// Behaviours of receivers.
const (
	accepts = "accepts"
	fails   = "fails"
	refuses = "refuses" // for ever
	isGone  = "is gone"
	hangs   = "hangs"
	panics  = "panics"
)

// A world is a fixture with receivers whose behaviour changes, and a dispatcher that is stopped and
// killed.
type world struct {
	*fixture
	t          *rapid.T
	dispatcher *running
	made       int // subscribers so far

	// notified has, for each notification that is not suppressed, the subscribers that must get it.
	notified map[string][]string
	deleted  map[string]bool // subscribers

	mu        sync.Mutex
	now       time.Time
	behaviour map[string]string // by subscriber
	ids       map[string]string // by subscriber and update
	accepted  map[string]bool   // ids
	refused   map[string]bool   // ids
	busy      map[string]bool   // subscribers with an attempt in progress
	gone      map[string]bool   // subscribers
	problems  []string
}

func newWorld(t *rapid.T, dir string) *world {
	w := &world{
		fixture: newFixture(t, dir), t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		notified: map[string][]string{}, deleted: map[string]bool{},
		behaviour: map[string]string{}, ids: map[string]string{},
		accepted: map[string]bool{}, refused: map[string]bool{}, busy: map[string]bool{}, gone: map[string]bool{},
	}
	w.clock = w.time
	w.dispatcher = w.run()
	return w
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Send is the receiver of all subscribers.
func (w *world) Send(ctx context.Context, m delivery.Message) (err error) {
	behaviour := w.begin(m)
	defer func() { w.finish(m, err) }()
	switch behaviour {
	case accepts:
		return nil
	case refuses:
		return &delivery.Failure{Kind: delivery.Permanent, Reason: "HTTP 404"}
	case isGone:
		return &delivery.Failure{Kind: delivery.Gone, Reason: "HTTP 410"}
	case hangs:
		bounded, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		<-bounded.Done()
		return bounded.Err()
	case panics:
		panic("a defect of a sender")
	default:
		return errors.New("HTTP 500")
	}
}

// begin checks an attempt against those before.
func (w *world) begin(m delivery.Message) (behaviour string) {
	earlier := w.earlierWaiting(m.ID)
	w.mu.Lock()
	defer w.mu.Unlock()
	problem := func(format string, arguments ...any) {
		w.problems = append(w.problems, fmt.Sprintf("message %s to %s: ", m.Update.Message, m.Subscriber.ID)+fmt.Sprintf(format, arguments...))
	}
	s, key := m.Subscriber.ID, m.Subscriber.ID+" "+m.Update.ID
	if w.busy[s] {
		problem("two at once")
	}
	w.busy[s] = true
	if id, ok := w.ids[key]; ok && id != m.ID {
		problem("two ids")
	}
	w.ids[key] = m.ID
	if earlier > 0 {
		problem("sent before %d earlier ones", earlier)
	}
	return w.behaviour[s]
}

func (w *world) finish(m delivery.Message, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[m.Subscriber.ID] = false
	switch {
	case err == nil && w.behaviour[m.Subscriber.ID] == accepts:
		w.accepted[m.ID] = true
	case delivery.KindOf(err) == delivery.Permanent:
		w.refused[m.ID] = true
	case delivery.KindOf(err) == delivery.Gone:
		w.gone[m.Subscriber.ID] = true
	}
}

// earlierWaiting counts the waiting deliveries that must be sent before one.
func (w *world) earlierWaiting(id string) (n int) {
	const count = `SELECT count(*) FROM deliveries d, deliveries e
		WHERE d.id = ? AND e.subscriber_id = d.subscriber_id AND e.sequence < d.sequence AND e.state = 'waiting'`
	if err := w.file.QueryRow(count, id).Scan(&n); err != nil {
		panic(err)
	}
	return n
}

// run starts a dispatcher, which waits while another one runs.
func (w *world) run() *running {
	return w.start(delivery.Options{Senders: map[string]delivery.Sender{delivery.Webhook: w, delivery.Email: w}, Clock: w.clock})
}

// replace ends the dispatcher while the next one waits, and another one that waits ends too.
func (w *world) replace(killed bool) {
	synctest.Wait() // Run has started
	next, waits := w.run(), w.run()
	pass(1500 * time.Millisecond) // for a poll
	waits.end(w.t)
	if w.dispatcher.stop(); killed {
		w.dispatcher.dispatcher.Kill()
	}
	testkit.Must(w.t, <-w.dispatcher.done)
	w.dispatcher = next
}

// alive returns the subscribers in the database, in order.
func (w *world) alive() []string {
	return storetest.Column[string](w.t, w.file, "SELECT id FROM subscribers ORDER BY id")
}

// drawSubscriber skips the action if there is no subscriber.
func (w *world) drawSubscriber(t *rapid.T) string {
	ids := w.alive()
	if len(ids) == 0 {
		t.Skip("no subscriber")
	}
	return rapid.SampledFrom(ids).Draw(t, "subscriber")
}

// actions are what happens to the world, in any order.
func (w *world) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"subscribe": func(t *rapid.T) {
			w.made++
			id := fmt.Sprintf("%s-%d", rapid.StringMatching("[a-z]").Draw(t, "id"), w.made)
			w.setBehaviour(id, rapid.SampledFrom([]string{accepts, fails, hangs}).Draw(t, "behaviour"))
			w.subscribe(id, rapid.SampledFrom([]string{delivery.Email, delivery.Webhook}).Draw(t, "channel"))
		},
		"notify": func(t *rapid.T) {
			if suppressed := rapid.IntRange(0, 3).Draw(t, "suppressed") == 0; suppressed {
				w.notify(true)
				return
			}
			subscribers := w.alive()
			w.notified[w.notify(false)] = subscribers
		},
		"receiver": func(t *rapid.T) {
			w.setBehaviour(w.drawSubscriber(t),
				rapid.SampledFrom([]string{accepts, accepts, fails, refuses, isGone, hangs, panics}).Draw(t, "behaviour"))
		},
		"remove": func(t *rapid.T) {
			if rapid.IntRange(0, 2).Draw(t, "really") != 0 {
				t.Skip("too many")
			}
			id := w.drawSubscriber(t)
			w.write(func(ctx context.Context, q *query.Queries) error {
				_, err := q.DeleteSubscriberAnyTeam(ctx, id)
				return err
			})
			w.deleted[id] = true
		},
		"retry": func(t *rapid.T) { w.retryDeadLetters() },
		"step": func(t *rapid.T) {
			w.step(time.Duration(rapid.SampledFrom([]int64{1, 10, 300, 7200, 50_000}).Draw(t, "seconds")) * time.Second)
		},
		"wait": func(t *rapid.T) {
			<-time.After(time.Duration(rapid.SampledFrom([]int{1, 30, 1500, 16_000, 61_000}).Draw(t, "milliseconds")) * time.Millisecond)
		},
		"stop": func(*rapid.T) { w.replace(false) },
		"kill": func(*rapid.T) { w.replace(true) },
		"":     func(t *rapid.T) { w.check() },
	}
}

func (w *world) setBehaviour(subscriber, behaviour string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behaviour[subscriber] = behaviour
}

func (w *world) step(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) retryDeadLetters() {
	w.write(func(ctx context.Context, q *query.Queries) error {
		letters, err := q.ListDeadLettersAnyTeam(ctx, "")
		testkit.Must(w.t, err)
		for _, letter := range letters {
			testkit.Must(w.t, q.RetryDeliveryAnyTeam(ctx, query.RetryDeliveryAnyTeamParams{ID: letter, Now: w.clock().UnixNano()}))
		}
		return nil
	})
}

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

// checkRemoved checks that only receivers that are gone were removed, with an audit entry.
func (w *world) checkRemoved(alive []string) {
	var removed []string
	for s := range w.behaviour {
		if slices.Contains(alive, s) || w.deleted[s] {
			continue
		}
		if removed = append(removed, s); !w.gone[s] {
			w.t.Fatalf("%s was removed", s)
		}
	}
	audited := storetest.Column[string](w.t, w.file, "SELECT resource_id FROM audit_entries WHERE action_type = 'subscriber.removed' ORDER BY 1")
	if slices.Sort(removed); !slices.Equal(audited, removed) {
		w.t.Fatalf("removed: %q, with audit entries: %q", removed, audited)
	}
}

// Whatever happens to receivers, subscribers and dispatchers, each notification is delivered or
// becomes a dead letter, in order.
func TestQueueKeepsItsPromises(t *testing.T) {
	base := t.TempDir()
	checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	testkit.Must(t, err)
	for made := 0; made < checks && !t.Failed(); { // in one bubble, rapid stops after 24 hours of the bubble's time
		synctest.Test(t, func(t *testing.T) {
			rapid.Check(struct{ testing.TB }{t}, func(t *rapid.T) {
				made++
				w := newWorld(t, filepath.Join(base, strconv.Itoa(made)))
				defer func() {
					w.dispatcher.end(w.t)
					w.close()
				}()
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
