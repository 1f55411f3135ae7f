package inbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const maxWebhookBytes = 256 << 10

const webhook = "webhook"

// Paths of receivers that do not accept at once. Each other path accepts.
const (
	failsTwice = "/fails-twice"
	slow       = "/slow"
)

// failures is how often failsTwice refuses a message.
const failures = 2

// receive receives a webhook for the host and path of the request.
func (i *Inbox) receive(s System, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "webhooks are sent by POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxWebhookBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		return // the client has disconnected
	}
	head, _ := httputil.DumpRequest(r, false) // fails only for a body
	m := &message{raw: append(head, body...), body: len(head)}
	m.Summary = Summary{
		ReceivedAt: i.options.Clock(), Channel: webhook, Address: "http://" + r.Host + r.URL.RequestURI(),
		ID: r.Header.Get(standardwebhooks.HeaderWebhookID),
	}
	m.Subject, m.Page = event(body)
	m.Signature = s.verify(r.Context(), m, body, r.Header)
	i.box.add(m, func(m *message) { m.Status, m.Receiver = respond(r.URL.Path, m.Attempt) })
	if r.URL.Path == slow {
		await(r.Context(), i.options.SlowFor)
	}
	w.WriteHeader(m.Status)
}

// respond returns the response of a receiver to an attempt, and the description of a receiver that does not accept at once.
func respond(path string, attempt int) (status int, receiver string) {
	switch path {
	case failsTwice:
		receiver = "this receiver fails twice, then accepts"
		if attempt <= failures {
			return http.StatusInternalServerError, receiver
		}
	case slow:
		receiver = "this receiver is slow"
	}
	return http.StatusNoContent, receiver
}

func await(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// verify verifies a webhook with the secrets of the subscribers that have its URL. The same URL may be subscribed to several pages.
func (s System) verify(ctx context.Context, m *message, body []byte, header http.Header) *Signature {
	subscribers, err := s.Subscribers(ctx, webhook, m.Address)
	if err != nil {
		s.Logger.Warn("the secrets of a webhook cannot be read", slog.String("error", err.Error()))
		return &Signature{Detail: "not verified: the secrets of the subscriber cannot be read"}
	}
	reason := "no subscriber has this URL"
	for _, subscriber := range subscribers {
		for n, secret := range subscriber.Secrets {
			verifier, err := standardwebhooks.NewWebhookRaw(secret)
			if err == nil {
				err = verifier.Verify(body, header)
			}
			if err == nil {
				m.Page = subscriber.Page
				return &Signature{Verified: true, Detail: fmt.Sprintf("signature verified with secret %d of %d", n+1, len(subscriber.Secrets))}
			}
			_, reason, _ = strings.Cut(err.Error(), "err: ")
		}
	}
	return &Signature{Detail: "not verified: " + reason}
}
