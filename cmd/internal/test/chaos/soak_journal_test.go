package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// journal is the state that clients share.
type journal struct {
	sync.Mutex
	tags      map[string]string // the last ETag, by path
	incidents []string          // the latest created ones, so that no incident collects all updates
	next      int               // index in incidents of the next replacement
	marks     int
	writes    map[string]*writeState // by mark
}

// writeState is the state of a write, as its client sees it.
type writeState struct {
	incident     string // of an update; "" for a new incident
	keyed        bool   // retried until acknowledged
	acknowledged bool
}

func newJournal(incidents []string) *journal {
	return &journal{tags: map[string]string{}, incidents: incidents, writes: map[string]*writeState{}}
}

func (b *journal) tag(path string) string {
	b.Lock()
	defer b.Unlock()
	return b.tags[path]
}

func (b *journal) setTag(path, tag string) {
	b.Lock()
	defer b.Unlock()
	b.tags[path] = tag
}

func (b *journal) incident(random *rand.Rand) string {
	b.Lock()
	defer b.Unlock()
	return pick(random, b.incidents)
}

// mark returns a unique text.
func (b *journal) mark(what string) string {
	b.Lock()
	defer b.Unlock()
	b.marks++
	return fmt.Sprintf("soak-%s-%d", what, b.marks)
}

// addWrite records a write before it is sent; acknowledge records its success.
func (b *journal) addWrite(v soakRequest) {
	b.Lock()
	defer b.Unlock()
	w := &writeState{keyed: v.headers["Idempotency-Key"] != ""}
	if path, ok := strings.CutSuffix(v.path, "/updates"); ok {
		w.incident = strings.TrimPrefix(path, "/v1/incidents/")
	}
	b.writes[v.mark] = w
}

func (b *journal) acknowledge(v soakRequest, body []byte) {
	var created struct{ ID string }
	_ = json.Unmarshal(body, &created)
	b.Lock()
	defer b.Unlock()
	w := b.writes[v.mark]
	w.acknowledged = true
	if w.incident == "" && created.ID != "" {
		b.incidents[b.next] = created.ID
		b.next = (b.next + 1) % len(b.incidents)
	}
}

// audit compares the writes with the stored resources: lost are acknowledged writes without a result, twice are writes with two.
func (b *journal) audit(t *testing.T, s *soak) (lost, twice int) {
	t.Helper()
	done := map[string]int{}
	for cursor := ""; ; {
		var page struct {
			Items      []struct{ Title string }
			NextCursor string
		}
		s.fetch(t, "/v1/incidents?limit=100&cursor="+cursor, &page)
		for _, item := range page.Items {
			done[item.Title]++
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	updated := map[string]bool{}
	for _, w := range b.writes {
		if w.incident == "" || updated[w.incident] {
			continue
		}
		updated[w.incident] = true
		var incident struct{ Updates []struct{ Message string } }
		s.fetch(t, "/v1/incidents/"+w.incident, &incident)
		for _, u := range incident.Updates {
			done[u.Message]++
		}
	}
	for mark, w := range b.writes {
		if w.acknowledged && done[mark] == 0 || w.keyed && !w.acknowledged {
			lost++
		}
		if done[mark] > 1 {
			twice++
		}
	}
	return lost, twice
}

// fetch reads an existing resource from the first gateway.
func (s *soak) fetch(t *testing.T, path string, into any) {
	t.Helper()
	o := s.send(t.Context(), s.client, s.gateways[0], soakRequest{method: http.MethodGet, path: path, token: s.tokens["full"]})
	if o.err != nil || o.status != http.StatusOK {
		t.Fatalf("GET %s: %d, error %v", path, o.status, o.err)
	}
	must(t, json.Unmarshal(o.body, into))
}
