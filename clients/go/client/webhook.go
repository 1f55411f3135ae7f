package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrWebhook is in the error for a request that is no webhook of the holder of the secret, or is
// older than five minutes: answer 401.
var ErrWebhook = errors.New("no valid webhook")

var errSecret = errors.New("the secret of a webhook is whsec_ and base64, like " +
	"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")

// A Webhook is the payload of a webhook of a status page. Further types may follow.
type Webhook struct {
	Type      string
	Timestamp time.Time
	Data      struct {
		StatusPage struct{ ID, Name, Hostname string }
		Incident   struct {
			ID, Title     string
			Status        IncidentStatus
			Impact        IncidentImpact
			IsMaintenance bool
			StartedAt     time.Time
			Components    []struct{ ID, Name string }
		}
		Update struct {
			ID        string
			Status    IncidentStatus
			Message   string
			CreatedAt time.Time
		}
	}
}

// VerifyWebhook returns the payload of a webhook, by Standard Webhooks 1.0. Drop repeats by the
// header webhook-id.
func VerifyWebhook(secret string, header http.Header, body []byte) (*Webhook, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return nil, errSecret
	}
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		if header.Get(name) == "" {
			return nil, fmt.Errorf("%w: the header %s is missing", ErrWebhook, name)
		}
	}
	sent := header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", header.Get("webhook-id"), sent, body)
	signature := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	matches := func(given string) bool { return hmac.Equal([]byte(given), signature) }
	if !slices.ContainsFunc(strings.Fields(header.Get("webhook-signature")), matches) {
		return nil, fmt.Errorf("%w: no signature matches", ErrWebhook)
	}
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return nil, fmt.Errorf("%w: the timestamp is not of now", ErrWebhook)
	}
	payload := &Webhook{}
	return payload, json.Unmarshal(body, payload)
}
