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

// ErrWebhook is returned for a request that is no webhook of the holder of the secret, or is older than five minutes: answer 401.
var ErrWebhook = errors.New("no valid webhook")

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

// VerifyWebhook returns the payload of a webhook, by Standard Webhooks 1.0. Drop repeats by the header webhook-id.
func VerifyWebhook(secret string, header http.Header, body []byte) (*Webhook, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return nil, errors.New("the secret is not whsec_ and base64")
	}
	sent := header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", header.Get("webhook-id"), sent, body)
	signature := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	matches := func(given string) bool { return hmac.Equal([]byte(given), signature) }
	if !slices.ContainsFunc(strings.Fields(header.Get("webhook-signature")), matches) {
		return nil, ErrWebhook
	}
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return nil, ErrWebhook
	}
	payload := &Webhook{}
	return payload, json.Unmarshal(body, payload)
}
