package docs

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/webhook"
	"opsgate/internal/testkit"
)

const webhooksGuide = "webhooks" // whose programs wait for messages and do not call the API

// TestReceiversOfWebhooksGuide runs the receivers of the guide, which also shows a payload as the
// sender writes it. Each accepts deliveries of the real sender, also during a rotation, processes a
// repeat only once, and refuses what is tampered, old, or signed with another key.
func TestReceiversOfWebhooksGuide(t *testing.T) {
	receivers := 0
	for _, e := range blocks(t) {
		switch {
		case e.guide != webhooksGuide || e.title == "try.sh":
		case e.title == "payload.json":
			encoded, err := webhook.Payload(notification())
			testkit.Must(t, err)
			var shown, sent any
			decode(t, []byte(e.text), &shown)
			if decode(t, encoded, &sent); !reflect.DeepEqual(shown, sent) {
				t.Errorf("the payload of the example is\n%s", encoded)
			}
		default:
			receivers++
			t.Run(e.title, func(t *testing.T) {
				t.Parallel()
				checkReceiver(t, e)
			})
		}
	}
	if receivers != 3 {
		t.Errorf("the guide has %d receivers", receivers)
	}
}

var (
	receiverSecret = bytes.Repeat([]byte("r"), 32)
	otherSecret    = bytes.Repeat([]byte("o"), 32)
)

// notification is the message of the guide's example.
func notification() delivery.Message {
	at := time.Date(2026, 11, 22, 9, 41, 7, 123_000_000, time.UTC)
	return delivery.Message{
		ID: "019ab0de-4b31-7c22-9d6f-5f1f4f3f2a10", Event: delivery.IncidentCreated, CreatedAt: at, Attempt: 1,
		Subscriber: delivery.Subscriber{Secrets: [][]byte{receiverSecret}},
		Page:       delivery.Page{ID: "3f6c1d5e-8a52-4f0e-9d0c-7c5b1f2a9e34", Name: "Harbour status", Hostname: "status.harbour.example"},
		Incident: delivery.Incident{
			ID: "019ab0de-4b2f-7f0a-8e6b-2f9f5c1d7a55", Title: "API errors – détails", Impact: "major", StartedAt: at,
			Components: []delivery.Component{{ID: "b7e1f6d2-3c4a-4f58-8b9d-0a1b2c3d4e5f", Name: "Public API"}},
		},
		Update: delivery.Update{
			ID: "019ab0de-4b30-7a11-b1c2-8d7e6f5a4b3c", Status: "investigating",
			Message: "About 5 % of requests fail.\nWe are looking into it.", CreatedAt: at,
		},
	}
}

func checkReceiver(t *testing.T, e example) {
	t.Helper()
	command := interpreter(t, e.write(t, ""))
	c := exec.Command(command[0], command[1:]...)
	c.Env = append(os.Environ(), "WEBHOOK_SECRET="+webhook.FormatSecret(receiverSecret), "PORT=0")
	output := new(testkit.Buffer)
	c.Stdout = output
	p := testkit.Start(t, c)
	p.MayFail() // a signal ends it
	listening := regexp.MustCompile(`^listening on port (\d+)\n`)
	testkit.Eventually(t, "it listens", func() bool { return listening.MatchString(output.String()) })
	address := "127.0.0.1:" + listening.FindStringSubmatch(output.String())[1]

	try := func(secret []byte, want string) {
		t.Helper()
		dir := t.TempDir()
		for _, e := range blocks(t) {
			write(t, filepath.Join(dir, e.title), e.text)
		}
		variables := []string{"WEBHOOK_SECRET=" + webhook.FormatSecret(secret), "PORT=" + strings.TrimPrefix(address, "127.0.0.1:")}
		if out, stderr, err := runIn(t, dir, variables, "bash", "try.sh"); out != want || err != nil {
			t.Errorf("try.sh: %v: got %q, want %q\n%s", err, out, want, stderr)
		}
	}
	try(receiverSecret, "204\n")
	try(otherSecret, "401\n")

	tamper := func(http.Header, []byte) {}
	between := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: address})
		body, _ := io.ReadAll(r.In.Body) // a shorter one is refused
		tamper(r.Out.Header, body)
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
	}})
	defer between.Close()
	send := func(step, want string, m delivery.Message, clock func() time.Time) {
		t.Helper()
		m.Subscriber.Address = between.URL
		sender := webhook.New(webhook.Options{AllowHTTP: true, Clock: clock})
		got := ""
		if err := sender.Send(t.Context(), m); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", step, got, want)
		}
	}
	m := notification()
	send("delivery", "", m, nil)
	m.Attempt = 2
	send("repeat", "", m, nil)
	m.ID, m.Event, m.Update.Status = "019ab0de-4b31-7c22-9d6f-5f1f4f3f2a11", delivery.UpdatePosted, "resolved"
	m.Subscriber.Secrets = [][]byte{otherSecret, receiverSecret}
	send("rotation", "", m, nil)

	m.ID, m.Subscriber.Secrets = "019ab0de-4b31-7c22-9d6f-5f1f4f3f2a12", [][]byte{otherSecret}
	send("another key", "HTTP 401", m, nil)
	m.Subscriber.Secrets = [][]byte{receiverSecret}
	send("old", "HTTP 401", m, func() time.Time { return time.Now().Add(-10 * time.Minute) })
	for name, change := range map[string]func(http.Header, []byte){
		"body":         func(_ http.Header, body []byte) { body[len(body)/2] ^= 1 },
		"no UTF-8":     func(_ http.Header, body []byte) { body[len(body)/2] = 0xff },
		"id":           func(h http.Header, _ []byte) { h.Set("Webhook-Id", "019ab0de-4b31-7c22-9d6f-5f1f4f3f2a13") },
		"form":         func(h http.Header, _ []byte) { h.Set("Webhook-Signature", "x") },
		"no signature": func(h http.Header, _ []byte) { h.Del("Webhook-Signature") },
	} {
		tamper = change
		send(name, "HTTP 401", m, nil)
	}
	p.End(t)
	_, got, _ := strings.Cut(output.String(), "\n")
	const incident = " 019ab0de-4b2f-7f0a-8e6b-2f9f5c1d7a55 "
	created := "incident.created" + incident + "investigating API errors – détails\n"
	want := created + created + "incident.update_posted" + incident + "resolved API errors – détails\n"
	if got != want {
		t.Errorf("it processed\n%s", got)
	}
}
