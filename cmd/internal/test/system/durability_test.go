package system

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"opsgate/authn"
	"opsgate/cmd/internal/test/testkit"
	"opsgate/gateway/openapi/openapitest"
)

// Acknowledged incidents, their audit entries and the responses of idempotency keys survive SIGKILL.
func TestAcknowledgedIncidentsSurviveSIGKILL(t *testing.T) {
	data := t.TempDir()
	s := start(t, launchOptions{config: highLimits, dataDir: data})
	full := s.as(t, "full")
	const key = "Idempotency-Key: before-the-crash"
	first := full.post(t, "/v1/incidents", newIncident, key).must(t, 200)

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
	again := full.post(t, "/v1/incidents", newIncident, key).must(t, 200)
	if string(again.body) != string(first.body) || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the key returned %s, then %s", first.body, again.body)
	}
}

// After a restart of the backend or the gateway, a key returns the first response and rejects a different request.
func TestIdempotencyKeySurvivesARestart(t *testing.T) {
	for name, restart := range map[string]func(*apart, *testing.T){
		"backend": (*apart).restartBackend,
		"gateway": (*apart).restartGateway,
	} {
		t.Run(name, func(t *testing.T) {
			s := startApart(t, "")
			full := s.as(t, "full")
			const createKey, updateKey = "Idempotency-Key: made-once", "Idempotency-Key: updated-once"
			created := full.post(t, "/v1/incidents", newIncident, createKey).must(t, 200)
			incident := "/v1/incidents/" + created.object(t).text("id")
			updated := full.post(t, incident+"/updates", newUpdate, updateKey).must(t, 200)
			for _, first := range []response{created, updated} {
				if first.header.Get("Idempotent-Replayed") != "" {
					t.Errorf("the first response is marked as a replay: %s", first.body)
				}
			}
			before := full.get(t, incident).must(t, 200)

			restart(s, t)
			mustReplay(t, created, full.post(t, "/v1/incidents", newIncident, createKey))
			mustReplay(t, updated, full.post(t, incident+"/updates", newUpdate, updateKey))
			for target, body := range map[string]string{
				"/v1/incidents":       strings.Replace(newIncident, `"title":"`, `"title":"Not `, 1),
				incident + "/updates": strings.Replace(newUpdate, "Fixed.", "Not fixed.", 1),
			} {
				key := createKey
				if target != "/v1/incidents" {
					key = updateKey
				}
				details := full.post(t, target, body, key).fails(t, 422, "validation_error")
				if details["Idempotency-Key"] == "" {
					t.Errorf("%s with another body: details %v", target, details)
				}
			}
			if after := full.get(t, incident).must(t, 200); string(after.body) != string(before.body) {
				t.Errorf("the incident changed from %s to %s", before.body, after.body)
			}
		})
	}
}

// mustReplay fails the test unless the second response repeats the first and is marked as a replay.
func mustReplay(t *testing.T, first, second response) {
	t.Helper()
	if string(second.must(t, 200).body) != string(first.body) || second.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %s, then %s, replayed: %q", first.body, second.body, second.header.Get("Idempotent-Replayed"))
	}
}

// The backend is killed during requests. A client without a response repeats its request with the same key until it gets one.
func TestRepeatedRequestsAreExecutedOnceWhileTheBackendIsKilled(t *testing.T) {
	const clients, each, kills = 8, 30, 3
	s := startApart(t, "")
	full := s.as(t, "full")
	var answered, lost, replayed atomic.Int64
	var wg sync.WaitGroup
	for worker := range clients {
		wg.Go(func() {
			for i := range each {
				title := fmt.Sprintf("Incident %d of client %d", i, worker)
				if postOnce(t, full, title, &lost) {
					replayed.Add(1)
				}
				answered.Add(1)
			}
		})
	}
	for kill := range kills {
		at := int64(clients * each * (kill + 1) / (kills + 1))
		testkit.Eventually(t, "requests are answered", func() bool { return answered.Load() >= at })
		s.backend.Kill()
		before := lost.Load()
		testkit.Eventually(t, "requests fail", func() bool { return lost.Load() > before })
		s.startBackend(t)
	}
	wg.Wait()
	t.Logf("%d requests failed, %d responses were replays", lost.Load(), replayed.Load())

	times := map[string]int{}
	for _, incident := range walk(t, full, "/v1/incidents?limit=100", func() {}) {
		times[incident.text("title")]++
	}
	for worker := range clients {
		for i := range each {
			title := fmt.Sprintf("Incident %d of client %d", i, worker)
			if times[title] != 1 {
				t.Errorf("%s was created %d times", title, times[title])
			}
		}
	}
}

// postOnce creates an incident with a key, and repeats the request until it gets a response. It reports whether that is a replay.
func postOnce(t *testing.T, c client, title string, lost *atomic.Int64) (replayed bool) {
	t.Helper()
	body := fmt.Sprintf(`{"title":%q,"status":"investigating","impact":"minor","message":"It hangs."}`, title)
	headers := []string{"Content-Type: application/json", "Idempotency-Key: " + strings.ReplaceAll(title, " ", "-")}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(testkit.MaxWait); time.Now().Before(end); <-again.C {
		r, err := c.try(t.Context(), "POST", "/v1/incidents", body, headers...)
		switch {
		case err == nil && r.status == 200:
			return r.header.Get("Idempotent-Replayed") == "true"
		case err != nil || r.status >= 500 || r.status == 409: // 409: the first request is still in progress
			lost.Add(1)
		default:
			t.Errorf("%s: got %d %s", title, r.status, r.body)
			return false
		}
	}
	t.Errorf("%s: no response within %v", title, testkit.MaxWait)
	return false
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

// The service is frozen. With max_in_flight 2, one lookup of an unknown token may be in flight, and four requests of a network may wait.
func TestUnknownTokensAreShedAtTheLookupLimit(t *testing.T) {
	const waiting = 4
	s := startApart(t, "authn: {look_up_timeout: 15s, fresh_for: 10m}\nupstream_calls: {max_in_flight: 2}\n")
	full := s.as(t, "full")
	testkit.Eventually(t, "the stream is up", func() bool { return s.streamUp(t) })
	full.get(t, "/v1/me").must(t, 200)
	s.freezeBackend(t)
	first := make(chan int, waiting)
	for range waiting {
		go func() {
			r, _ := s.unknown(t).try(t.Context(), "GET", "/v1/me", "")
			first <- r.status
		}()
	}
	testkit.Eventually(t, "one lookup is in flight and the others are queued", func() bool {
		return s.metric(t, `opsgate_authn_lookups_in_flight{token="unknown"}`) == "1" &&
			s.metric(t, "opsgate_authn_lookups_queued") == strconv.Itoa(waiting-1)
	})

	r := s.unknown(t).get(t, "/v1/me")
	if r.fails(t, 503, "unavailable"); r.header.Get("Retry-After") != "1" {
		t.Errorf("retry-after %q", r.header.Get("Retry-After"))
	}
	if len(first) != 0 {
		t.Error("the request was queued instead of shed")
	}
	full.get(t, "/v1/me").must(t, 200)
	if n := s.metric(t, `opsgate_authn_lookups_total{outcome="shed"}`); n != "1" {
		t.Errorf("%s counted as shed, want 1", n)
	}
	s.backend.Signal(t, syscall.SIGCONT)
	for range waiting {
		if status := <-first; status != 401 {
			t.Errorf("a queued request got %d, want 401", status)
		}
	}
}

// freezeBackend sends SIGSTOP to the backend, and returns when all its threads are stopped.
func (a *apart) freezeBackend(t *testing.T) {
	t.Helper()
	a.backend.Signal(t, syscall.SIGSTOP)
	full := a.as(t, "full")
	testkit.Eventually(t, "the backend is frozen", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := full.try(ctx, "GET", "/v1/incidents?limit=1", "")
		return err != nil
	})
}

// unknown returns a client with a well-formed token that does not exist.
func (a *apart) unknown(t *testing.T) client {
	t.Helper()
	token, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.Reader)
	if err != nil {
		t.Error(err)
	}
	return client{system: a.System, token: token, validator: openapitest.New(t)}
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

// The gateway does not repeat lookups within 20 minutes, so that only the stream delivers the revocation. explain reports it.
func TestRevokedTokenIsRefusedAtOnce(t *testing.T) {
	data := t.TempDir()
	s := start(t, launchOptions{config: highLimits + "authn: {fresh_for: 1h, stale_for: 2h}\n", dataDir: data})
	read := s.as(t, "read")
	id := read.get(t, "/v1/me").object(t).text("tokenId")
	revoke(t, data, id)
	testkit.Eventually(t, "the token is refused", func() bool { return read.get(t, "/v1/me").status == 401 })
	s.as(t, "full").get(t, "/v1/me").must(t, 200)
	operator := client{system: &System{BaseURL: s.AdminURL}}
	explained, err := operator.try(t.Context(), "GET", "/admin/explain?method=GET&path=/v1/me&token_id="+id, "")
	testkit.Must(t, err)
	for _, want := range []string{`"cause":"token:revoked"`, `"freshness":"revoked"`} {
		if !strings.Contains(string(explained.body), want) {
			t.Errorf("no %s in %s", want, explained.body)
		}
	}
}
