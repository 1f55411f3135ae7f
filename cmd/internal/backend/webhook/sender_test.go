package webhook_test

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/webhook"
	"opsgate/internal/testkit"
)

// A request is what a receiver got.
type request struct {
	method string
	header http.Header
	body   []byte
}

// recorded returns a handler that accepts requests and records them.
func recorded(requests chan<- request) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- request{r.Method, r.Header, body}
		w.WriteHeader(http.StatusNoContent)
	}
}

// The library of Standard Webhooks accepts each secret during a rotation, and no other.
func TestLibraryVerifiesSignatures(t *testing.T) {
	t.Parallel()
	n, requests := newInternet(t), make(chan request, 1)
	m := n.receive(recorded(requests))
	current, previous := bytes.Repeat([]byte("\xfb\xff"), 16), bytes.Repeat([]byte("p"), 32)
	m.Subscriber.Secrets = [][]byte{current, previous}
	_, err := n.send(m, 0)
	testkit.Must(t, err)
	sent := <-requests
	for _, secret := range [][]byte{current, previous, webhook.NewSecret()} {
		err := must(standardwebhooks.NewWebhook(webhook.FormatSecret(secret)))(t).Verify(sent.body, sent.header)
		if valid := bytes.Equal(secret, current) || bytes.Equal(secret, previous); (err == nil) != valid {
			t.Errorf("secret %q: %v", secret, err)
		}
	}
	m.Subscriber.Secrets = nil
	if err := n.sender(0, m).Send(t.Context(), m); err == nil || len(requests) > 0 {
		t.Errorf("without a secret: got %v and %d requests", err, len(requests))
	}
}

func TestOutcomeOfStatus(t *testing.T) {
	t.Parallel()
	n := newInternet(t)
	m := n.receive(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		w.Header().Set("Location", "/")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(status)
	})
	for status := 200; status <= 599; status++ {
		m := m
		m.Subscriber.Address += "&status=" + strconv.Itoa(status)
		got, err := n.send(m, 0)
		want, gone := "HTTP "+strconv.Itoa(status), status == http.StatusGone
		switch {
		case status < 300:
			want = ""
		case status < 400:
			want += ": redirects are not followed"
		case gone:
			want = "HTTP 410"
		}
		if got != want || delivery.KindOf(err) == delivery.Permanent || (delivery.KindOf(err) == delivery.Gone) != gone {
			t.Errorf("status %d: got %v, want %q", status, err, want)
		}
	}
}
