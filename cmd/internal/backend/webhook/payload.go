package webhook

import (
	"bytes"
	"encoding/json"
	"time"

	"opsgate/cmd/internal/backend/delivery"
)

// A Payload is the body of a request. Its fields have the names and forms of the public API, whose document describes it as
// WebhookMessage.
type Payload struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"` // of the event
	Data      Data   `json:"data"`
}

// Data is what the event is about.
type Data struct {
	StatusPage StatusPage `json:"statusPage"`
	Incident   Incident   `json:"incident"`
	Update     Update     `json:"update"`
}

// A StatusPage is the page whose subscribers are notified.
type StatusPage struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Hostname string `json:"hostname"`
}

// An Incident has the status that the update gave it.
type Incident struct {
	ID            string      `json:"id"`
	Title         string      `json:"title"`
	Status        string      `json:"status"`
	Impact        string      `json:"impact"`
	IsMaintenance bool        `json:"isMaintenance"`
	StartedAt     string      `json:"startedAt"`
	Components    []Component `json:"components"`
}

// A Component is affected by the incident.
type Component struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// An Update is the update that caused the event: the first one if the incident was created.
type Update struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	Message   string `json:"message"`
	CreatedAt string `json:"createdAt"`
}

// NewPayload returns the payload of the message.
func NewPayload(m delivery.Message) Payload {
	components := make([]Component, len(m.Incident.Components)) // never null
	for i, c := range m.Incident.Components {
		components[i] = Component{ID: c.ID, Name: c.Name}
	}
	return Payload{
		Type:      m.Event,
		Timestamp: format(m.CreatedAt),
		Data: Data{
			StatusPage: StatusPage{ID: m.Page.ID, Name: m.Page.Name, Hostname: m.Page.Hostname},
			Incident: Incident{
				ID: m.Incident.ID, Title: m.Incident.Title, Status: m.Update.Status, Impact: m.Incident.Impact,
				IsMaintenance: m.Incident.IsMaintenance, StartedAt: format(m.Incident.StartedAt), Components: components,
			},
			Update: Update{ID: m.Update.ID, Status: m.Update.Status, Message: m.Update.Message, CreatedAt: format(m.Update.CreatedAt)},
		},
	}
}

// format returns the time in the form of the public API.
func format(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// body returns the payload of the message as JSON. It is the same at each attempt, because it depends on nothing else.
func body(m delivery.Message) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(NewPayload(m)); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
