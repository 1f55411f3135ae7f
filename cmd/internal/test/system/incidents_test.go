package system

import (
	"crypto/rand"
	"strings"
	"testing"
)

func TestAllInvalidFieldsAreReportedTogether(t *testing.T) {
	full := shared.as(t, "full")
	details := full.post(t, "/v1/incidents", `{"title":"","status":"open","impact":7,"statusPageId":"x","componentIds":"y","notifySubscribers":true}`).
		fails(t, 422, "validation_error")
	for _, field := range []string{"title", "status", "impact", "message", "statusPageId", "componentIds", "notifySubscribers"} {
		if details[field] == "" {
			t.Errorf("%s is not reported in %v", field, details)
		}
	}
	for target, field := range map[string]string{
		"/v1/incidents?limit=0": "limit", "/v1/audit?limit=101": "limit", "/v1/incidents?limit=": "limit", "/v1/incidents?limit=1&limit=2": "limit",
		"/v1/servers/" + full.id(t, "/v1/servers") + "/commands?pageSize=101": "pageSize", "/v1/servers/" + full.id(t, "/v1/servers") + "/commands?page=abc": "page",
		"/v1/servers/" + full.id(t, "/v1/servers") + "/metrics?range=2h": "range", "/v1/monitors/" + full.id(t, "/v1/monitors") + "/checks?since=yesterday": "since",
	} {
		if details := full.get(t, target).fails(t, 422, "validation_error"); details[field] == "" || len(details) != 1 {
			t.Errorf("%s: details %v", target, details)
		}
	}
}

func TestIdempotencyKeyReplaysTheFirstResponse(t *testing.T) {
	full := shared.as(t, "full")
	key := "Idempotency-Key: " + rand.Text()
	body := `{"title":"Once","status":"identified","impact":"none","message":"m"}`
	first := full.post(t, "/v1/incidents", body, key).must(t, 200)
	again := full.post(t, "/v1/incidents", `{ "message":"m","title":"Once", "impact":"none","status":"identified"}`, key).must(t, 200)
	if string(first.body) != string(again.body) || again.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("first %s, again %s, replayed %q", first.body, again.body, again.header.Get("Idempotent-Replayed"))
	}
	details := full.post(t, "/v1/incidents", strings.Replace(body, "Once", "Twice", 1), key).fails(t, 422, "validation_error")
	if details["Idempotency-Key"] != "was used with another body or path in the last 24 hours" {
		t.Errorf("another body: details = %v", details)
	}
	update := "/v1/incidents/" + first.object(t).text("id") + "/updates"
	details = full.post(t, update, `{"status":"resolved","message":"m"}`, key).fails(t, 422, "validation_error")
	if details["Idempotency-Key"] != "was used for another operation in the last 24 hours" {
		t.Errorf("another operation: details = %v", details)
	}
	if other := shared.as(t, "other_team").post(t, "/v1/incidents", body, key).must(t, 200); other.header.Get("Idempotent-Replayed") != "" {
		t.Error("a key is shared between teams")
	}
}
