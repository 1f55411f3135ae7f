package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
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

// A world is a fixture with receivers whose behaviour changes, and a dispatcher that is stopped and killed.
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
	numbers   *rand.Rand
	behaviour map[string]string           // by subscriber
	ids       map[string]string           // by subscriber and update
	first     map[string]delivery.Message // the first attempt of each id
	order     map[string][]string         // the updates of each subscriber, by first attempt
	accepted  map[string]bool             // ids
	refused   map[string]bool             // ids
	busy      map[string]bool             // subscribers with an attempt in progress
	gone      map[string]bool             // subscribers
	problems  []string
}

func newWorld(t *rapid.T, dir string) *world {
	w := &world{
		fixture: newFixture(t, dir), t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		numbers:  rand.New(rand.NewPCG(1, 2)),
		notified: map[string][]string{}, deleted: map[string]bool{},
		behaviour: map[string]string{}, ids: map[string]string{}, first: map[string]delivery.Message{}, order: map[string][]string{},
		accepted: map[string]bool{}, refused: map[string]bool{}, busy: map[string]bool{}, gone: map[string]bool{},
	}
	w.clock = w.time
	w.restart()
	return w
}

// end closes the store.
func (w *world) end() {
	w.kill()
	w.close()
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) random() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.numbers.Float64()
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
	same := m
	same.Attempt = 0
	if first, ok := w.first[m.ID]; !ok {
		w.first[m.ID] = same
		w.order[s] = append(w.order[s], m.Update.Message)
	} else if !reflect.DeepEqual(first, same) {
		problem("differs: %+v, first %+v", same, first)
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

func (w *world) restart() {
	w.dispatcher = w.start(delivery.Options{
		Senders: map[string]delivery.Sender{delivery.Webhook: w, delivery.Email: w},
		Clock:   w.clock, Random: w.random,
	})
}

func (w *world) kill() {
	synctest.Wait() // Run has started
	w.dispatcher.stop()
	w.dispatcher.dispatcher.Kill()
	testkit.Must(w.t, <-w.dispatcher.done)
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
			w.subscribeBy(rapid.SampledFrom([]string{delivery.Email, delivery.Webhook}).Draw(t, "channel"), id)
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
		"resolve": func(*rapid.T) { // has no effect on messages
			w.write(func(ctx context.Context, q *query.Queries) error {
				now := w.clock().UnixNano()
				return q.SetIncidentStatus(ctx, query.SetIncidentStatusParams{
					TeamID: team, ID: w.incident.ID, Status: "resolved", ResolvedAt: &now,
				})
			})
		},
		"step": func(t *rapid.T) {
			w.step(time.Duration(rapid.SampledFrom([]int64{1, 10, 300, 7200, 50_000}).Draw(t, "seconds")) * time.Second)
		},
		"wait": func(t *rapid.T) {
			<-time.After(time.Duration(rapid.SampledFrom([]int{1, 30, 1500, 16_000, 61_000}).Draw(t, "milliseconds")) * time.Millisecond)
		},
		"stop": func(*rapid.T) {
			w.dispatcher.end(w.t)
			w.restart()
		},
		"kill": func(*rapid.T) {
			w.kill()
			w.restart()
		},
		"": func(t *rapid.T) { w.check() },
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
