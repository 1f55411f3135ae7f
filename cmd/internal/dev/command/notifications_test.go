package command_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"opsgate/cmd/internal/test/mailtest"
	"opsgate/internal/testkit"
	"opsgate/internal/tracing/tracingtest"
)

// openIncident opens an incident on the page Harbour.
func (s *system) openIncident(t *testing.T) {
	t.Helper()
	_, list := s.call(t, http.MethodGet, s.BaseURL+"/v1/status-pages", s.Tokens["full"], "")
	var pages []struct{ ID, Name string }
	testkit.Must(t, json.Unmarshal([]byte(list), &pages))
	page := pages[slices.IndexFunc(pages, func(p struct{ ID, Name string }) bool { return p.Name == "Harbour" })].ID
	body := `{"title": "Slow search", "status": "investigating", "impact": "minor", "message": "We look into it.", "statusPageId": "` + page + `"}`
	if status, answer := s.call(t, http.MethodPost, s.BaseURL+"/v1/incidents", s.Tokens["full"], body); status != http.StatusOK {
		t.Fatalf("got %d %s", status, answer)
	}
}

type hook struct {
	header http.Header
	body   []byte
}

// The page Harbour has three subscribers by email and four by webhook. Deliveries are in the trace
// of the request that caused them.
func TestNotificationsArePrintedAndSent(t *testing.T) {
	t.Parallel()
	emails, hooks, collector := make(chan mailtest.Message, 100), make(chan hook, 100), tracingtest.Start(t)
	mails := &mailtest.Server{Data: func(m mailtest.Message) error { emails <- m; return nil }}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		hooks <- hook{r.Header, body}
	}))
	t.Cleanup(receiver.Close)
	config := write(t, "tracing: {endpoint: "+collector.HTTP+", sample: 100%}\n")
	s := start(t, "--config="+config, "--smtp="+mails.Start(t), "--webhook="+receiver.URL)
	s.openIncident(t)
	line := regexp.MustCompile(`(?m)^notification  (email|webhook)  (\S+)  \[Harbour\] Slow search: investigating$`)
	testkit.Eventually(t, "seven lines, three emails and four webhooks", func() bool {
		return len(line.FindAllString(s.Out.String(), -1)) == 7 && len(emails) == 3 && len(hooks) == 4
	})
	lines := strings.Join(line.FindAllString(s.Out.String(), -1), "\n")
	testkit.Contains(t, lines, "  email  ana@customer.example  ", "  webhook  http://hooks.partner.example/status  ")
	for range 3 {
		if text := string((<-emails).Text); !strings.Contains(text, "Subject: [Harbour] Slow search: investigating\r\n") {
			t.Errorf("got the email\n%s", text)
		}
	}
	key, err := standardwebhooks.NewWebhook(regexp.MustCompile(`whsec_\S+`).FindString(s.Out.String()))
	testkit.Must(t, err)
	for range 4 {
		h := <-hooks
		testkit.Must(t, key.Verify(h.body, h.header))
	}
	s.end(t) // sends the last spans
	traces := map[string]string{}
	for _, span := range collector.Spans() {
		traces[string(span.GetTraceId())] += fmt.Sprintln(span.From()["service.name"], span.GetName())
	}
	for _, names := range traces {
		if strings.Contains(names, "opsgate POST /v1/incidents\n") && strings.Count(names, "opsbackend deliver notification\n") == 7 {
			return
		}
	}
	t.Errorf("no trace has the request and its deliveries: %v", traces)
}
