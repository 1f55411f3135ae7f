package service_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

// deliver creates an incident on the page of a subscriber, and returns the delivery to it.
func (s *system) deliver(own team, subscriber string) (id string) {
	s.t.Helper()
	r := newIncident(own, "Slow")
	r.StatusPageId = &own.page
	s.create(r)
	return storetest.Column[string](s.t, s.file(), "SELECT id FROM deliveries WHERE subscriber_id = ? ORDER BY sequence DESC LIMIT 1", subscriber)[0]
}

// finish ends a delivery that is due like the dispatcher.
func (s *system) finish(id, state string) {
	s.t.Helper()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		row, err := q.GetDeliveryAnyTeam(ctx, id)
		if err != nil {
			return err
		}
		now := s.clock.Now().UnixNano()
		err = q.SetDeliveryFinishedAnyTeam(ctx, query.SetDeliveryFinishedAnyTeamParams{
			Sequence: row.Sequence, State: state, LastError: "status 500", FinishedAt: &now,
		})
		if err != nil {
			return err
		}
		return q.SetNextDeliveryDueAnyTeam(ctx, query.SetNextDeliveryDueAnyTeamParams{SubscriberID: row.SubscriberID, Now: &now})
	})
}

// due returns the deliveries of a subscriber that have a time of the next attempt, and all its
// waiting ones in their order.
func (s *system) due(subscriber string) (due, waiting []string) {
	for _, d := range slices.Backward(s.deliveries()) {
		if d.SubscriberID != subscriber || d.State != "waiting" {
			continue
		}
		waiting = append(waiting, d.ID)
		if !d.DueAt.IsZero() {
			due = append(due, d.ID)
		}
	}
	return due, waiting
}

// At any time the first waiting message of a subscriber is due, and no other one is. Retried
// letters are last, in their order.
func TestRetriedLettersKeepTheOrderOfTheQueue(t *testing.T) {
	s, own := startTeam(t)
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		checks++
		n := webhookOf(own)
		n.Address += fmt.Sprint(checks)
		subscriber := s.add(n).ID
		var queue, dead []string
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch step := rapid.SampledFrom([]string{"deliver", "deliver", "delivered", "dead", "dead", "retry", "retry all"}).Draw(rt, "step"); {
			case step == "deliver":
				queue = append(queue, s.deliver(own, subscriber))
			case step == "delivered" && len(queue) > 0:
				s.finish(queue[0], "delivered")
				queue = queue[1:]
			case step == "dead" && len(queue) > 0:
				s.finish(queue[0], "dead")
				dead, queue = append(dead, queue[0]), queue[1:]
			case step == "retry" && len(dead) > 0:
				i := rapid.IntRange(0, len(dead)-1).Draw(rt, "letter")
				testkit.Must(t, s.backend.RetryDeliveries(t.Context(), dead[i:i+1]))
				queue, dead = append(queue, dead[i]), slices.Delete(dead, i, i+1)
			case step == "retry all":
				retried, err := s.backend.RetryDeadLetters(t.Context(), subscriber)
				testkit.Must(t, err)
				if retried != len(dead) {
					rt.Fatalf("%d of %d letters retried", retried, len(dead))
				}
				queue, dead = append(queue, dead...), nil
			}
			due, waiting := s.due(subscriber)
			if !slices.Equal(waiting, queue) || !slices.Equal(due, queue[:min(1, len(queue))]) {
				rt.Fatalf("waiting %v, due %v, want the first of %v", waiting, due, queue)
			}
		}
	})
}

// The result of an attempt, which names the sequence of its delivery, may arrive after the
// subscriber was removed.
func TestRetriedLettersHaveNoSequenceOfADeletedDelivery(t *testing.T) {
	s, own := startTeam(t)
	letter := s.deliver(own, s.add(webhookOf(own)).ID)
	s.finish(letter, "dead")
	n := webhookOf(own)
	n.Address += "/removed"
	removed := s.add(n).ID
	attempted := storetest.Column[int64](t, s.file(), "SELECT sequence FROM deliveries WHERE id = ?", s.deliver(own, removed))[0]
	testkit.Must(t, s.backend.RemoveSubscriber(t.Context(), removed))
	testkit.Must(t, s.backend.RetryDeliveries(t.Context(), []string{letter}))
	s.insert(func(ctx context.Context, q *query.Queries) error {
		now := s.clock.Now().UnixNano()
		return q.SetDeliveryFinishedAnyTeam(ctx, query.SetDeliveryFinishedAnyTeamParams{Sequence: attempted, State: "delivered", FinishedAt: &now})
	})
	if list := s.deliveries(); len(list) != 2 || list[0].State != "waiting" || list[1].State != "waiting" {
		t.Errorf("the result of another delivery was written: %v", list)
	}
}

func TestMoreDeadLettersThanOneBatchAreRetried(t *testing.T) {
	s := startSystem(t)
	ours, theirs := s.add(webhookOf(s.team("harbour"))).ID, s.add(webhookOf(s.team("lighthouse"))).ID
	own := s.team("pier")
	s.create(newIncident(own, "Slow"))
	s.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
		INSERT INTO notifications (id, team_id, status_page_id, incident_id, update_id, event, suppressed, created_at)
		SELECT i, ?, ?, u.incident_id, u.id, 'incident.created', 1, 0 FROM n, incident_updates u`, own.id, own.page)
	s.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
		INSERT INTO deliveries (id, subscriber_id, channel, notification_id, state, created_at, finished_at)
		SELECT i || s.id, s.id, 'webhook', i, 'dead', 0, 0 FROM n, subscribers s`)
	retried, err := s.backend.RetryDeadLetters(t.Context(), ours)
	testkit.Must(t, err)
	list := s.subscribers()
	if retried != 1200 || list[0].ID != ours || list[0].Waiting != 1200 || list[0].Dead != 0 || list[1].ID != theirs || list[1].Dead != 1200 {
		t.Errorf("%d retried, subscribers %v", retried, list)
	}
}

// A message that waits for its next attempt is due at once, those behind it are not, and the audit
// log has the retry.
func TestWaitingMessageIsDueAtOnce(t *testing.T) {
	s, own := startTeam(t)
	subscriber := s.add(webhookOf(own)).ID
	first, second := s.deliver(own, subscriber), s.deliver(own, subscriber)
	s.exec("UPDATE deliveries SET attempts = 7, due_at = due_at + 3600000000000 WHERE id = ?", first)
	err := s.backend.RetryDeliveries(t.Context(), []string{second})
	if err == nil || !strings.Contains(err.Error(), "waits for delivery "+first) {
		t.Errorf("the second one: %v", err)
	}
	testkit.Must(t, s.backend.RetryDeliveries(t.Context(), []string{first}))
	for _, d := range s.deliveries() {
		if d.ID == first && (!d.DueAt.Equal(s.clock.Now()) || d.Attempts != 7) || d.ID == second && !d.DueAt.IsZero() {
			t.Errorf("%+v", d)
		}
	}
	if got := s.audited(own.id, first); got != "delivery.retried delivery" {
		t.Error(got)
	}
	s.finish(first, "delivered")
	if err := s.backend.RetryDeliveries(t.Context(), []string{first}); err == nil || !strings.Contains(err.Error(), "is delivered") {
		t.Errorf("a delivered message: %v", err)
	}
}
