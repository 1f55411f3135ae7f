package systemtest

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Everything that was acknowledged before the power went is there afterwards, with its audit entry, and an idempotency key
// still knows its answer.
func TestAcknowledgedIncidentsSurviveAKill(t *testing.T) {
	data := t.TempDir()
	s := start(t, launchOptions{config: highLimits, dataDir: data})
	full := s.as(t, "full")
	const key = "Idempotency-Key: before-the-crash"
	remembered := full.post(t, "/v1/incidents", newIncident, key).must(t, 200)

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
	<-enough
	s.kill(t)
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
	again := full.post(t, "/v1/incidents", newIncident, key).must(t, 200)
	if string(again.body) != string(remembered.body) || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the key forgot its answer: %s, then %s", remembered.body, again.body)
	}
}

func TestARevokedTokenIsRefusedWithinASecond(t *testing.T) {
	data := t.TempDir()
	s := start(t, launchOptions{config: highLimits, dataDir: data})
	read := s.as(t, "read")
	me := read.get(t, "/v1/me").object(t)
	revoke := exec.Command(filepath.Join(programs.dir, "opsbackend"), "token", "revoke", "--data-dir", data, me.text("tokenId"))
	if out, err := revoke.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	revoked := time.Now()
	for read.get(t, "/v1/me").status == 200 {
		if time.Since(revoked) > 5*time.Second {
			t.Fatal("still accepted after 5 s")
		}
	}
	if took := time.Since(revoked); took > time.Second {
		t.Errorf("refused after %v", took)
	}
	s.as(t, "full").get(t, "/v1/me").must(t, 200)
}
