package system

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
)

// Acknowledged incidents, their audit entries and the responses of idempotency keys survive SIGKILL.
func TestAcknowledgedIncidentsSurviveSIGKILL(t *testing.T) {
	data := t.TempDir()
	s := start(t, launchOptions{config: highLimits, dataDir: data})
	full := s.as(t, "full")
	const createKey, updateKey = "Idempotency-Key: made-once", "Idempotency-Key: updated-once"
	created := full.post(t, "/v1/incidents", newIncident, createKey).must(t, 200)
	incident := "/v1/incidents/" + created.object(t).text("id")
	updated := full.post(t, incident+"/updates", newUpdate, updateKey).must(t, 200)
	before := full.get(t, incident).must(t, 200)

	var mu sync.Mutex
	acknowledged := map[string]bool{}
	enough := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				r, err := full.try(t.Context(), "POST", "/v1/incidents", newIncident)
				if err != nil {
					return // killed
				}
				var o object
				if r.status != 200 || json.Unmarshal(r.body, &o) != nil {
					continue
				}
				mu.Lock()
				acknowledged[o.text("id")] = true
				if len(acknowledged) == 200 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(testkit.MaxWait):
		mu.Lock()
		t.Errorf("%d incidents of 200 were acknowledged within %v", len(acknowledged), testkit.MaxWait)
		mu.Unlock()
	}
	s.process.Kill()
	wg.Wait()

	s = start(t, launchOptions{config: highLimits, dataDir: data})
	full = s.as(t, "full")
	found := byID(walk(t, full, "/v1/incidents?limit=100", func() {}))
	audited := map[string]bool{}
	for _, e := range walk(t, full, "/v1/audit?limit=100&action=incident.created", func() {}) {
		audited[e.text("resourceId")] = true
	}
	for id := range acknowledged {
		if !found[id] || !audited[id] {
			t.Errorf("acknowledged incident %s: found %v, audited %v", id, found[id], audited[id])
		}
	}
	for _, c := range []struct {
		target, key, body, another string
		first                      response
	}{
		{"/v1/incidents", createKey, newIncident, strings.Replace(newIncident, `"title":"`, `"title":"Not `, 1), created},
		{incident + "/updates", updateKey, newUpdate, strings.Replace(newUpdate, "Fixed.", "Not fixed.", 1), updated},
	} {
		again := full.post(t, c.target, c.body, c.key).must(t, 200)
		if string(again.body) != string(c.first.body) || again.header.Get("Idempotent-Replayed") != "true" || c.first.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("the key returned %s, then %s, replayed: %q", c.first.body, again.body, again.header.Get("Idempotent-Replayed"))
		}
		if details := full.post(t, c.target, c.another, c.key).fails(t, 422, "validation_error"); details["Idempotency-Key"] == "" {
			t.Errorf("%s with another body: details %v", c.target, details)
		}
	}
	if after := full.get(t, incident).must(t, 200); string(after.body) != string(before.body) {
		t.Errorf("the incident changed from %s to %s", before.body, after.body)
	}
}

// The gateway does not repeat lookups within 20 minutes, so that only the stream delivers the revocation.
func TestRevocationIsDeliveredAfterTheStreamWasCut(t *testing.T) {
	s := startApart(t, "authn: {fresh_for: 1h, stale_for: 2h}\n")
	read, full := s.as(t, "read"), s.as(t, "full")
	id := read.get(t, "/v1/me").object(t).text("tokenId")
	full.get(t, "/v1/me").must(t, 200)
	testkit.Eventually(t, "the stream is up", func() bool { return s.streamUp(t) })
	read.get(t, "/v1/me").must(t, 200) // tokens cached before the stream was up are looked up again
	full.get(t, "/v1/me").must(t, 200)

	s.backend.Kill()
	testkit.Eventually(t, "the stream is cut", func() bool { return !s.streamUp(t) })
	revoke(t, s.data, id)
	read.get(t, "/v1/me").must(t, 200) // the revocation is not delivered yet
	lookups := s.resolved(t)
	s.startBackend(t)
	testkit.Eventually(t, "the revocation arrives", func() bool { return read.get(t, "/v1/me").status == 401 })
	full.get(t, "/v1/me").must(t, 200)
	if n := s.resolved(t); n != lookups {
		t.Errorf("%s lookups, want %s, because the stream resumed without a gap", n, lookups)
	}

	// Another database does not have the gateway's position in the stream, and its token is not revoked.
	s.backend.Kill()
	s.data = filepath.Join(t.TempDir(), "data")
	s.startBackend(t)
	testkit.Eventually(t, "every token is looked up again", func() bool { return read.get(t, "/v1/me").status == 200 })
	if n := s.resolved(t); n == lookups {
		t.Error("a token was accepted without a lookup")
	}
}

// streamUp reports whether the stream of revocations is connected.
func (a *apart) streamUp(t *testing.T) bool {
	t.Helper()
	return a.metric(t, "opsgate_authn_revocation_stream_connected") == "1"
}

// resolved returns the number of tokens that the identity service has resolved.
func (a *apart) resolved(t *testing.T) string {
	t.Helper()
	return a.metric(t, `opsgate_authn_lookups_total{outcome="resolved"}`)
}

// metric returns the value of a series of the gateway.
func (a *apart) metric(t *testing.T, series string) string {
	t.Helper()
	page, err := client{system: &System{BaseURL: a.AdminURL}}.try(t.Context(), "GET", "/metrics", "")
	testkit.Must(t, err)
	for line := range strings.Lines(string(page.body)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("there is no metric %s", series)
	return ""
}

// revoke revokes a token in the data directory of a backend.
func revoke(t *testing.T, data, tokenID string) {
	t.Helper()
	command := exec.Command(filepath.Join(programs.dir, "opsbackend"), "token", "revoke", "--data-dir", data, tokenID)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
