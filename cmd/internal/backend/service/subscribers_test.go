package service_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

func webhookOf(t team) service.NewSubscriber {
	return service.NewSubscriber{Page: t.page, Channel: service.ChannelWebhook, Address: "https://hooks.customer.example/T0/secret-path"}
}

func emailOf(t team) service.NewSubscriber {
	return service.NewSubscriber{Page: t.page, Channel: service.ChannelEmail, Address: "ops@customer.example"}
}

// add adds a subscriber.
func (s *system) add(n service.NewSubscriber) service.AddedSubscriber {
	s.t.Helper()
	added, err := s.backend.AddSubscriber(s.t.Context(), n)
	testkit.Must(s.t, err)
	return added
}

// subscribers returns all subscribers.
func (s *system) subscribers() []service.Subscriber {
	s.t.Helper()
	list, err := s.backend.ListSubscribers(s.t.Context(), "")
	testkit.Must(s.t, err)
	return list
}

// deliveries returns all deliveries, newest first.
func (s *system) deliveries() []service.Delivery {
	s.t.Helper()
	list, err := s.backend.ListDeliveries(s.t.Context(), service.DeliveryFilter{}, 1000)
	testkit.Must(s.t, err)
	return list
}

// audited returns the actions of a resource, in their order.
func (s *system) audited(team, resource string) (actions string) {
	s.t.Helper()
	return strings.Join(storetest.Column[string](s.t, s.file(), `SELECT action_type || ' ' || resource_type FROM audit_entries
		WHERE team_id = ? AND resource_id = ? ORDER BY created_at`, team, resource), ", ")
}

// An incident is delivered to each subscriber of its page, and an update that notifies no
// subscriber to none.
func TestActionsWriteADeliveryForEachSubscriber(t *testing.T) {
	s, own := startTeam(t)
	hook, mail := s.add(webhookOf(own)), s.add(emailOf(own))
	s.add(webhookOf(s.team("lighthouse")))
	if !strings.HasPrefix(hook.Secret, "whsec_") || mail.Secret != "" {
		t.Errorf("secrets %q and %q", hook.Secret, mail.Secret)
	}
	r := newIncident(own, "Slow")
	r.StatusPageId = &own.page
	incident := s.create(r).GetId()
	update := newUpdate(own, incident)
	update.NotifySubscribers = false
	_, err := s.incident.AddIncidentUpdate(t.Context(), update)
	testkit.Must(t, err)
	var subscribers []string
	for _, d := range s.deliveries() {
		subscribers = append(subscribers, d.SubscriberID)
		if d.Event != "incident.created" || d.State != "waiting" || !d.DueAt.Equal(d.CreatedAt) || d.Channel == "email" != (d.SubscriberID == mail.ID) {
			t.Errorf("%+v", d)
		}
	}
	slices.Sort(subscribers)
	if want := slices.Sorted(slices.Values([]string{hook.ID, mail.ID})); !slices.Equal(subscribers, want) {
		t.Errorf("deliveries to %v, want %v", subscribers, want)
	}
	if got := s.audited(own.id, hook.ID); got != "subscriber.added subscriber" {
		t.Errorf("audited %q", got)
	}
}

func TestAnAddressIsOnAPageOnce(t *testing.T) {
	s := startSystem(t)
	ours, theirs := s.team("harbour"), s.team("lighthouse")
	first := s.add(webhookOf(ours))
	mail := emailOf(s.team("pier"))
	for form, id := range map[service.NewSubscriber]string{
		{Page: ours.page, Channel: "webhook", Address: "HTTPS://Hooks.customer.EXAMPLE:443/T0/secret-path"}: first.ID,
		{Page: mail.Page, Channel: "email", Address: "Ops@Customer.EXAMPLE"}:                                s.add(mail).ID,
	} {
		_, err := s.backend.AddSubscriber(t.Context(), form)
		if err == nil || !strings.Contains(err.Error(), id) || strings.Contains(err.Error(), "secret-path") {
			t.Errorf("%s: the second addition: %v", form.Channel, err)
		}
	}
	byHostname := webhookOf(theirs)
	byHostname.Page = "lighthouse.example"
	second := s.add(byHostname)
	if got := s.audited(theirs.id, second.ID) + s.audited(ours.id, second.ID); got != "subscriber.added subscriber" {
		t.Errorf("audited %q", got)
	}
	for page, want := range map[string]string{ours.page: first.ID, "lighthouse.example": second.ID} {
		if list, err := s.backend.ListSubscribers(t.Context(), page); err != nil || len(list) != 1 || list[0].ID != want {
			t.Errorf("page %s: %v, %v", page, list, err)
		}
	}
}

func TestInvalidSubscribersAreRefused(t *testing.T) {
	s, own := startTeam(t)
	for _, change := range []func(*service.NewSubscriber){
		func(n *service.NewSubscriber) { n.Address = "http://hooks.customer.example/secret-path" },
		func(n *service.NewSubscriber) { n.Address = "https://10.0.0.1/secret-path" },
		func(n *service.NewSubscriber) { n.Address = "https://hooks.customer.example/secret-path\n" },
		func(n *service.NewSubscriber) { n.Channel, n.Address = "email", "secret-path" },
		func(n *service.NewSubscriber) { n.Channel = "pager" },
		func(n *service.NewSubscriber) { n.Page = "unknown" },
	} {
		n := webhookOf(own)
		change(&n)
		if _, err := s.backend.AddSubscriber(t.Context(), n); err == nil || strings.Contains(err.Error(), "secret-path") {
			t.Errorf("%v: %v", n, err)
		}
	}
	local := webhookOf(own)
	local.Address, local.AllowHTTP = "http://127.0.0.1:3000/hook", true
	s.add(local)
}

func TestRotatedSecretsOverlap(t *testing.T) {
	s, own := startTeam(t)
	added := s.add(webhookOf(own))
	secrets := func() (current, previous []byte, until *int64) {
		testkit.Must(t, s.file().QueryRow("SELECT secret, previous_secret, previous_secret_until FROM subscribers").Scan(&current, &previous, &until))
		return current, previous, until
	}
	first, _, _ := secrets()
	text, err := s.backend.RotateSecret(t.Context(), added.ID, 2*time.Hour)
	testkit.Must(t, err)
	second, previous, until := secrets()
	if string(previous) != string(first) || string(second) == string(first) || text == added.Secret ||
		*until != s.clock.Now().Add(2*time.Hour).UnixNano() {
		t.Errorf("%x, previous %x until %v", second, previous, until)
	}
	_, err = s.backend.RotateSecret(t.Context(), added.ID, 0)
	testkit.Must(t, err)
	third, previous, until := secrets()
	if previous != nil || until != nil || string(third) == string(second) {
		t.Errorf("%x, previous %x until %v", third, previous, until)
	}
	if got := s.audited(own.id, added.ID); strings.Count(got, "subscriber.secret_rotated subscriber") != 2 {
		t.Errorf("audited %q", got)
	}
	email := s.add(emailOf(own))
	if _, err := s.backend.RotateSecret(t.Context(), email.ID, 0); err == nil {
		t.Error("an email address got a secret")
	}
	if _, err := s.backend.RotateSecret(t.Context(), "42", 0); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("an unknown subscriber: %v", err)
	}
}

func TestRemovedSubscribersLeaveOnlyTheirID(t *testing.T) {
	s, own := startTeam(t)
	added := s.add(emailOf(own))
	testkit.Must(t, s.backend.RemoveSubscriber(t.Context(), added.ID))
	if len(s.subscribers()) != 0 || len(s.deliveries()) != 0 {
		t.Error("the subscriber or its deliveries are left")
	}
	if got := s.audited(own.id, added.ID); got != "subscriber.added subscriber, subscriber.removed subscriber" {
		t.Errorf("audited %q", got)
	}
	if err := s.backend.RemoveSubscriber(t.Context(), added.ID); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

// Each change and its audit entry are one transaction.
func TestFailedAuditEntriesUndoChangesOfSubscribers(t *testing.T) {
	s, own := startTeam(t)
	added := s.add(webhookOf(own))
	s.exec("CREATE TRIGGER refuse BEFORE INSERT ON audit_entries BEGIN SELECT RAISE(ABORT, 'refused'); END")
	var before, after string
	const rows = "SELECT group_concat(id || hex(secret)) FROM subscribers"
	testkit.Must(t, s.file().QueryRow(rows).Scan(&before))
	for name, change := range map[string]func(context.Context) error{
		"add":    func(ctx context.Context) error { _, err := s.backend.AddSubscriber(ctx, emailOf(own)); return err },
		"remove": func(ctx context.Context) error { return s.backend.RemoveSubscriber(ctx, added.ID) },
		"rotate": func(ctx context.Context) error { _, err := s.backend.RotateSecret(ctx, added.ID, 0); return err },
	} {
		if change(t.Context()) == nil {
			t.Errorf("%s succeeded", name)
		}
	}
	testkit.Must(t, s.file().QueryRow(rows).Scan(&after))
	if before != after || len(s.deliveries()) != 0 {
		t.Errorf("changed from %q to %q", before, after)
	}
}
