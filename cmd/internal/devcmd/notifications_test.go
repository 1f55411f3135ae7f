package devcmd_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/demo"
	"opsgate/cmd/internal/inbox"
)

// messages returns the messages in the inbox, newest first.
func (s *system) messages(t *testing.T) []inbox.Summary {
	t.Helper()
	_, body := s.call(t, http.MethodGet, s.InboxURL+"/messages", "", "")
	var list struct{ Messages []inbox.Summary }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	return list.Messages
}

// awaitMessages waits until the inbox has n messages that are ready, and returns them.
func (s *system) awaitMessages(t *testing.T, n int, ready func(inbox.Summary) bool) []inbox.Summary {
	t.Helper()
	limit, tick := time.After(time.Minute), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		list := slices.DeleteFunc(s.messages(t), func(m inbox.Summary) bool { return !ready(m) })
		if len(list) >= n {
			return list
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%d messages of %d: %+v\n%s", len(list), n, s.messages(t), s.log.String())
		}
	}
}

func (s *system) openIncident(t *testing.T, title string) {
	t.Helper()
	body := `{"title": "` + title + `", "status": "investigating", "impact": "minor", "message": "We look into it.", "statusPageId": "` +
		demo.NotifiedPage() + `"}`
	if status, answer := s.call(t, http.MethodPost, s.BaseURL+"/v1/incidents", s.Tokens["full"], body); status != 200 {
		t.Fatalf("got %d %s", status, answer)
	}
}

func TestSubscribersGetAnIncidentInTheInbox(t *testing.T) {
	s := start(t, "--still")
	s.openIncident(t, "Slow search")
	list := s.awaitMessages(t, 7, func(m inbox.Summary) bool { return strings.Contains(m.Subject, "Slow search") && m.Attempt == 1 })
	channels, ids := map[string]int{}, map[string]bool{}
	for _, m := range list {
		channels[m.Channel]++
		ids[m.ID] = true
		if m.Page != "Harbour" || m.Channel == "webhook" && !m.Signature.Verified {
			t.Errorf("got %+v %+v", m, m.Signature)
		}
	}
	if channels["email"] != 3 || channels["webhook"] != 4 || len(ids) != 7 {
		t.Errorf("got %v", channels)
	}
	repeat := s.awaitMessages(t, 1, func(m inbox.Summary) bool { return m.Attempt == 2 })[0]
	if repeat.Status != 500 || !ids[repeat.ID] || !repeat.Signature.Verified {
		t.Errorf("the second attempt: got %+v", repeat)
	}
	if _, metrics := s.call(t, http.MethodGet, s.InboxURL+"/metrics", "", ""); !strings.Contains(metrics,
		`opsbackend_deliveries_total{channel="email",outcome="delivered"} 3`) {
		t.Errorf("the metrics: %s", metrics)
	}
	s.end(t)
}
