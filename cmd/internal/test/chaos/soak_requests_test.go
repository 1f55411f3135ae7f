package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// soakRequest is a request of the soak with the statuses that are allowed without a fault. During a fault 500, 503 and 504 are allowed
// as well.
type soakRequest struct {
	kind         string
	method, path string
	token, body  string
	headers      map[string]string
	allowed      []int
	fresh        bool          // on a new connection
	hangUpAfter  time.Duration // 0 for never
	mark         string        // text in the created resource
}

// requestKind is a kind of request with its share in percent.
type requestKind struct {
	share int
	make  func(*soak, *rand.Rand) soakRequest
}

var requestKinds = []requestKind{
	{56, (*soak).read},
	{5, (*soak).canceledRead},
	{3, (*soak).create},
	{3, (*soak).update},
	{6, (*soak).limitedRead},
	{8, (*soak).wrongToken},
	{6, (*soak).forbiddenRead},
	{4, (*soak).unknownPath},
	{6, (*soak).badInput},
	{3, (*soak).wrongMethod},
}

// randomRequest returns a request of a random kind.
func randomRequest(s *soak, random *rand.Rand) soakRequest {
	n := random.IntN(100)
	for _, h := range requestKinds {
		if n -= h.share; n < 0 {
			return h.make(s, random)
		}
	}
	return s.read(random)
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// path fills {id} with an existing resource. Incidents are among the latest that were created.
func (s *soak) path(random *rand.Rand, template string) string {
	return s.ids.fill(template, func(list string, ids []string) string {
		if list == "/v1/incidents" {
			return s.journal.incident(random)
		}
		return pick(random, ids)
	})
}

// read reads an existing resource, with random request headers.
func (s *soak) read(random *rand.Rand) soakRequest {
	v := soakRequest{
		kind: "read", method: http.MethodGet, path: s.path(random, pick(random, readable())), token: s.tokens["full"],
		headers: map[string]string{}, allowed: []int{http.StatusOK},
	}
	switch n := random.IntN(100); {
	case n < 10:
		v.method = http.MethodHead
	case n < 30:
		v.headers["Accept-Encoding"] = "gzip"
	case n < 50:
		if tag := s.journal.tag(v.path); tag != "" {
			v.kind, v.headers["If-None-Match"], v.allowed = "conditional", tag, append(v.allowed, http.StatusNotModified)
		}
	case n < 60:
		v.kind, v.fresh = "new connection", true
	}
	return v
}

// canceledRead is canceled, mostly before the response.
func (s *soak) canceledRead(random *rand.Rand) soakRequest {
	v := s.read(random)
	v.kind, v.hangUpAfter = "hang-up", time.Duration(random.IntN(4000))*time.Microsecond+time.Microsecond
	return v
}

// limitedRead uses a token that exceeds its limit.
func (s *soak) limitedRead(random *rand.Rand) soakRequest {
	v := s.read(random)
	v.kind, v.token, v.allowed = "limited", s.tokens["read"], append(v.allowed, http.StatusTooManyRequests)
	return v
}

func (s *soak) wrongToken(random *rand.Rand) soakRequest {
	v := s.read(random)
	v.kind, v.allowed = "wrong token", []int{http.StatusUnauthorized}
	v.token = pick(random, []string{"", "x", s.tokens["revoked"], s.tokens["full"] + "x", s.unknownTokens(random)})
	return v
}

func (s *soak) forbiddenRead(random *rand.Rand) soakRequest {
	v := s.read(random)
	v.kind, v.allowed = "forbidden", []int{http.StatusForbidden}
	switch random.IntN(3) {
	case 0:
		v.path, v.token = "/v1/servers", s.tokens["none"]
	case 1:
		v.token = s.tokens["no_plan"]
	default:
		byID := slices.DeleteFunc(readable(), func(template string) bool { return !strings.Contains(template, "{id}") })
		v.kind, v.path, v.allowed = "of another team", s.path(random, pick(random, byID)), []int{http.StatusNotFound}
		v.token = s.tokens["other_team"]
	}
	return v
}

func (s *soak) unknownPath(random *rand.Rand) soakRequest {
	v := s.read(random)
	v.kind, v.allowed = "unknown path", []int{http.StatusNotFound}
	v.path = pick(random, []string{"/v1/nothing", "/v1/servers/", "/v1//servers", "/v1/servers/none", "/index.html", "/metrics", "/v2/me"})
	return v
}

func (s *soak) wrongMethod(random *rand.Rand) soakRequest {
	v := s.read(random)
	v.kind, v.allowed = "wrong method", []int{http.StatusMethodNotAllowed}
	v.method = pick(random, []string{http.MethodPut, http.MethodDelete, http.MethodOptions})
	if v.path = pick(random, []string{"/v1/servers", "/v1/incidents"}); v.method == http.MethodOptions {
		v.allowed = []int{http.StatusNoContent}
	}
	return v
}

func (s *soak) badInput(random *rand.Rand) soakRequest {
	v := s.read(random)
	v.kind, v.allowed = "bad input", []int{http.StatusUnprocessableEntity}
	if random.IntN(2) == 0 {
		v.path = pick(random, []string{"/v1/incidents?limit=0", "/v1/incidents?limit=1&limit=2", s.path(random, "/v1/servers/{id}/metrics?range=2h")})
		return v
	}
	v.method, v.path, v.headers["Content-Type"] = http.MethodPost, "/v1/incidents", "application/json"
	switch random.IntN(10) {
	case 0:
		v.body, v.allowed = strings.Repeat(" ", maxBody+1), []int{http.StatusRequestEntityTooLarge}
	case 1:
		v.body, v.headers["Content-Type"], v.allowed = "x=1", "text/plain", []int{http.StatusUnsupportedMediaType}
	default:
		v.body = pick(random, []string{"", "{", "[]", "{}", `{"title":1}`, `{"title":"a","title":"b"}`, "\xff", `{} {}`})
	}
	return v
}

// create and update write, half of them with an idempotency key. The journal records them.
func (s *soak) create(random *rand.Rand) soakRequest {
	mark := s.journal.mark("created")
	return s.write(random, mark, "/v1/incidents",
		fmt.Sprintf(`{"title":%q,"status":"resolved","impact":"minor","message":"We are looking."}`, mark))
}

func (s *soak) update(random *rand.Rand) soakRequest {
	mark := s.journal.mark("updated")
	path := "/v1/incidents/" + s.journal.incident(random) + "/updates"
	return s.write(random, mark, path, fmt.Sprintf(`{"status":"resolved","message":%q}`, mark))
}

func (s *soak) write(random *rand.Rand, mark, path, body string) soakRequest {
	v := soakRequest{
		kind: "write", method: http.MethodPost, path: path, body: body, token: s.tokens["full"], allowed: []int{http.StatusOK},
		headers: map[string]string{"Content-Type": "application/json"}, mark: mark,
	}
	if random.IntN(2) == 0 {
		v.kind, v.headers["Idempotency-Key"] = "write with a key", mark
		v.allowed = append(v.allowed, http.StatusConflict)
	}
	return v
}

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

// An audit has the numbers of writes that were executed twice, of those that were acknowledged and have no result or have a key and were
// never acknowledged, and of those that were executed and not acknowledged.
type audit struct{ twice, lost, unreported int }

// audit compares the writes with the stored resources.
func (b *journal) audit(t *testing.T, s *soak) (found audit) {
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
			found.lost++
		}
		if done[mark] > 1 {
			found.twice++
		}
		if done[mark] == 1 && !w.acknowledged {
			found.unreported++
		}
	}
	return found
}

// fetch reads an existing resource from the first gateway.
func (s *soak) fetch(t *testing.T, path string, into any) {
	t.Helper()
	mustRead(t, s.client, s.gateways[0].url+path, s.tokens["full"], into)
}
