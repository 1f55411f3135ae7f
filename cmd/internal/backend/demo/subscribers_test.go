package demo_test

import (
	"net/mail"
	"net/url"
	"strings"
	"testing"

	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/testkit"
)

func listSubscribers(t *testing.T, data *store.Store) (list []query.Subscriber) {
	t.Helper()
	testkit.Must(t, data.Read(t.Context(), func(q *query.Queries) error {
		rows, err := q.ListSubscribersAnyTeam(t.Context(), "")
		for _, row := range rows {
			list = append(list, row.Subscriber)
		}
		return err
	}))
	return list
}

// Nothing that is sent to a demo subscriber leaves the machine, because the names are under
// .example.
func TestDemoSubscribersAreExamples(t *testing.T) {
	backend, err := service.Open(t.Context(), service.Options{DataDir: t.TempDir(), Clock: now})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, backend.Close()) }()
	data := backend.Store()
	testkit.Must(t, demo.SeedWithSubscribers(t.Context(), data, format(), now()))
	list := listSubscribers(t, data)
	for _, s := range list {
		host := s.Address
		if s.Channel == "webhook" {
			u, err := url.Parse(s.Address)
			testkit.Must(t, err)
			host = u.Host
		} else if _, err := mail.ParseAddress(s.Address); err != nil {
			t.Error(err)
		}
		if !strings.HasSuffix(host, ".example") || (s.Channel == "webhook") != (len(s.Secret) == 32) || s.PreviousSecret != nil {
			t.Errorf("subscriber %+v", s)
		}
	}
	if len(list) != 12 {
		t.Errorf("%d subscribers", len(list))
	}
	testkit.Must(t, backend.Maintain(t.Context()))
	testkit.Must(t, demo.SeedWithSubscribers(t.Context(), data, format(), now()))
	if again := listSubscribers(t, data); len(again) != len(list) {
		t.Errorf("after maintenance and seeding again: %d subscribers", len(again))
	}
}

func TestSeedInsertsNoSubscribers(t *testing.T) {
	s := startSystem(t)
	if list := listSubscribers(t, s.backend.Store()); len(list) != 0 {
		t.Errorf("%d subscribers", len(list))
	}
}
