package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/smtp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/dev/inbox"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

const (
	ana     = "ana@customer.example"
	partner = "http://hooks.partner.example/status"
)

func secrets() [][]byte {
	return [][]byte{[]byte("the new secret of the receiver"), []byte("the old secret of the receiver")}
}

// A system is a running inbox with two subscribers.
type system struct {
	*inbox.Inbox

	t        *testing.T
	receiver http.Client // connects as the sender of webhooks does
	client   http.Client
	unsubs   chan string // bodies of requests to the links
}

func start(t *testing.T, o inbox.Options) *system {
	t.Helper()
	box, err := inbox.Listen(t.Context(), o)
	testkit.Must(t, err)
	s := &system{Inbox: box, t: t, unsubs: make(chan string, 10)}
	s.receiver.Transport = &http.Transport{DialContext: box.DialContext}
	s.client.Transport = new(http.Transport)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- box.Run(ctx, s.system()) }()
	t.Cleanup(func() {
		s.receiver.CloseIdleConnections()
		s.client.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *system) system() inbox.System {
	return inbox.System{
		Subscribers: func(_ context.Context, channel, address string) ([]inbox.Subscriber, error) {
			switch {
			case channel == "email" && address == ana:
				return []inbox.Subscriber{
					{Page: "Partners", Hostname: "partners.harbour.example"}, {Page: "Harbour", Hostname: "status.harbour.example"},
				}, nil
			case channel == "webhook" && strings.HasPrefix(address, "http://hooks.partner.example/"):
				return []inbox.Subscriber{
					{Page: "Partners", Secrets: [][]byte{[]byte("the secret of the other page")}}, {Page: "Harbour", Secrets: secrets()},
				}, nil
			}
			return nil, nil
		},
		Links: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			s.unsubs <- r.Method + " " + r.URL.Path + " " + string(body)
			_, _ = w.Write([]byte("done"))
		}),
		Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		Documentation: "http://127.0.0.1:8080/docs/", Example: "curl -d '{\"title\": \"<Slow>\"}' http://127.0.0.1:8080/v1/incidents",
	}
}

// do sends a request and returns the status and the body of the response.
func do(t *testing.T, client *http.Client, request *http.Request) (int, string, http.Header) {
	t.Helper()
	response, err := client.Do(request)
	testkit.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return response.StatusCode, string(body), response.Header
}

func newRequest(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testkit.Must(t, err)
	return request
}

func (s *system) get(path string) (int, string, http.Header) {
	s.t.Helper()
	return do(s.t, &s.client, newRequest(s.t, http.MethodGet, s.URL()+path, ""))
}

// messages returns all messages, newest first.
func (s *system) messages() []inbox.Summary {
	s.t.Helper()
	_, body, _ := s.get("/messages")
	var list struct{ Messages []inbox.Summary }
	s.decode(body, &list)
	return list.Messages
}

func (s *system) detail(number uint64) (d inbox.Detail) {
	s.t.Helper()
	_, body, _ := s.get(fmt.Sprint("/messages/", number))
	s.decode(body, &d)
	return d
}

func (s *system) decode(body string, v any) {
	s.t.Helper()
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		s.t.Fatalf("%v in %s", err, body)
	}
}

// mail sends an email over SMTP.
func (s *system) mail(to string, text []byte) error {
	return smtp.SendMail(s.SMTPAddress(), nil, "status@harbour.example", []string{to}, text)
}

func (s *system) mustMail(to string, text []byte) {
	s.t.Helper()
	testkit.Must(s.t, s.mail(to, text))
}

const payload = `{"type":"incident.created","data":{"statusPage":{"name":"Harbour"},"incident":{"title":"Slow search"}}}`

// signed returns a webhook, signed now with a secret.
func signed(t *testing.T, url, id, body string, secret []byte) *http.Request {
	t.Helper()
	return signedAt(t, url, id, body, secret, time.Now())
}

func signedAt(t *testing.T, url, id, body string, secret []byte, at time.Time) *http.Request {
	t.Helper()
	signer, err := standardwebhooks.NewWebhookRaw(secret)
	testkit.Must(t, err)
	signature, err := signer.Sign(id, at, []byte(body))
	testkit.Must(t, err)
	request := newRequest(t, http.MethodPost, url, body)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", fmt.Sprint(at.Unix()))
	request.Header.Set("Webhook-Signature", signature)
	return request
}

// exampleMail returns an email with a text part, an HTML part and the links of a subscription.
func exampleMail(base, id string) []byte {
	text := `From: Harbour <status@harbour.example>
To: ana@customer.example
Subject: =?UTF-8?q?Slow_search_=E2=80=93_investigating?=
Message-ID: <ID@status.harbour.example>
List-Unsubscribe: <BASE/subscriptions/abc/unsubscribe>
List-Unsubscribe-Post: List-Unsubscribe=One-Click
X-Long: first
 second
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary=limit

--limit
Content-Type: text/plain; charset=UTF-8
Content-Transfer-Encoding: quoted-printable

Search is slow =E2=80=93 we are looking into it.
--limit
Content-Type: text/html; charset=UTF-8
Content-Transfer-Encoding: base64

PHA+U2VhcmNoIGlzIDxiPnNsb3c8L2I+LjwvcD48c2NyaXB0PnBhcmVudC5oYWNrZWQ9MTtmZXRj
aCgiL3N1YnNjcmlwdGlvbnMvc2NyaXB0Iik8L3NjcmlwdD48aW1nIHNyYz0iL3N1YnNjcmlwdGlv
bnMvaW1hZ2UiPg==
--limit--
`
	text = strings.NewReplacer("\n", "\r\n", "ID@", id+"@", "BASE", base).Replace(text)
	return []byte(text)
}

func padding(n int) []byte {
	return bytes.Repeat([]byte("0123456789 0123456789 0123456789 0123456789 0123456789 abcde\r\n"), n/61)
}
