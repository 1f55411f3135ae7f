package command_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/dev/inbox"
	"opsgate/cmd/internal/kit/tracing/tracingtest"
)

// messages returns the messages in the inbox, newest first.
func (s *system) messages(t *testing.T) []inbox.Summary {
	t.Helper()
	_, body := s.call(t, http.MethodGet, s.InboxURL+"/messages", "", "")
	var list struct{ Messages []inbox.Summary }
	testkit.Must(t, json.Unmarshal([]byte(body), &list))
	return list.Messages
}

// awaitMessages waits until the inbox has n messages that are ready, and returns them.
func (s *system) awaitMessages(t *testing.T, n int, ready func(inbox.Summary) bool) (list []inbox.Summary) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d messages", n), func() bool {
		list = slices.DeleteFunc(s.messages(t), func(m inbox.Summary) bool { return !ready(m) })
		return len(list) >= n
	})
	return list
}

func (s *system) openIncident(t *testing.T, title string) {
	t.Helper()
	body := `{"title": "` + title + `", "status": "investigating", "impact": "minor", "message": "We look into it.", "statusPageId": "` +
		demo.NotifiedPage() + `"}`
	if status, answer := s.call(t, http.MethodPost, s.BaseURL+"/v1/incidents", s.Tokens["full"], body); status != 200 {
		t.Fatalf("got %d %s", status, answer)
	}
}

// The backend records to the collector of the gateway's configuration.
func TestSubscribersGetAnIncidentInTheInbox(t *testing.T) {
	collector := tracingtest.Start(t)
	s := start(t, "--config="+write(t, "tracing: {endpoint: "+collector.HTTP+", sample: 100%}\n"))
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
	repeat := s.awaitMessages(t, 1, func(m inbox.Summary) bool { return m.Attempt == 2 && strings.HasSuffix(m.Address, "/fails-twice") })[0]
	if repeat.Status != 500 || !ids[repeat.ID] || !repeat.Signature.Verified {
		t.Errorf("the second attempt: got %+v", repeat)
	}
	if _, metrics := s.call(t, http.MethodGet, s.InboxURL+"/metrics", "", ""); !strings.Contains(metrics,
		`opsbackend_deliveries_total{channel="email",outcome="delivered"} 3`) {
		t.Errorf("the metrics: %s", metrics)
	}
	s.unsubscribe(t, list)
	s.end(t)                                                                   // sends the last spans
	requests, deliveries, joined := map[string]bool{}, map[string]int{}, false // by trace
	for _, span := range collector.Spans() {
		switch id := string(span.GetTraceId()); span.From()["service.name"] + ": " + span.GetName() {
		case "opsgate: POST /v1/incidents":
			requests[id] = true
		case "opsbackend: deliver notification":
			deliveries[id]++
		}
	}
	for id := range requests {
		joined = joined || deliveries[id] >= 7
	}
	if !joined {
		t.Errorf("no request has seven deliveries in its trace: %v", deliveries)
	}
}

// unsubscribe ends the subscription of an email by its one-click link. The subscriber gets no further message.
func (s *system) unsubscribe(t *testing.T, list []inbox.Summary) {
	t.Helper()
	first := list[slices.IndexFunc(list, func(m inbox.Summary) bool { return m.Channel == "email" })]
	_, body := s.call(t, http.MethodGet, fmt.Sprint(s.InboxURL, "/messages/", first.Number), "", "")
	var detail inbox.Detail
	testkit.Must(t, json.Unmarshal([]byte(body), &detail))
	if status, answer := s.call(t, http.MethodPost, s.InboxURL+detail.Unsubscribe, "", "List-Unsubscribe=One-Click"); status != 200 {
		t.Errorf("%s: got %d %s", detail.Unsubscribe, status, answer)
	}
	s.openIncident(t, "Another")
	for _, m := range s.awaitMessages(t, 5, func(m inbox.Summary) bool { return strings.Contains(m.Subject, "Another") }) {
		if m.Address == first.Address {
			t.Errorf("%s is still notified", m.Address)
		}
	}
	if strings.Contains(s.Log.String(), detail.Unsubscribe) {
		t.Error("the link is in the log")
	}
}
