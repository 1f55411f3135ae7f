package webhook

import (
	"encoding/json"
	"time"

	"opsgate/cmd/internal/backend/delivery"
)

type object map[string]any

// Payload returns the body of a request, which the document of the public API describes as
// WebhookMessage. It is the same at each attempt, because it depends on nothing else.
func Payload(m delivery.Message) ([]byte, error) {
	components := make([]object, len(m.Incident.Components)) // never null
	for i, c := range m.Incident.Components {
		components[i] = object{"id": c.ID, "name": c.Name}
	}
	return json.Marshal(object{
		"type":      m.Event,
		"timestamp": format(m.CreatedAt),
		"data": object{
			"statusPage": object{"id": m.Page.ID, "name": m.Page.Name, "hostname": m.Page.Hostname},
			"incident": object{
				"id": m.Incident.ID, "title": m.Incident.Title, "impact": m.Incident.Impact,
				"isMaintenance": m.Incident.IsMaintenance,
				"status":        m.Update.Status, "startedAt": format(m.Incident.StartedAt), "components": components,
			},
			"update": object{
				"id": m.Update.ID, "status": m.Update.Status, "message": m.Update.Message, "createdAt": format(m.Update.CreatedAt),
			},
		},
	})
}

// format returns the time in the form of the public API.
func format(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
