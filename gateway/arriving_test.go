package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"opsgate/authn"
	"opsgate/internal/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
	"opsgate/ratelimit"
)

// arrivals are the bodies of a test, by name.
type arrivals struct {
	arrivingBodies

	bodies map[string]*arrivingBody
}

func newArrivals(limit int64) *arrivals {
	return &arrivals{arrivingBodies: arrivingBodies{limit: limit}, bodies: make(map[string]*arrivingBody)}
}

// begin begins a body, whose team is the first letter of its name, and grows it for a minute at
// most.
func (a *arrivals) begin(ctx context.Context, name string, size int64) <-chan error {
	b := &arrivingBody{}
	_ = a.arrivingBodies.begin(b, name[:1], false)
	a.bodies[name] = b
	return a.growBy(ctx, name, size)
}

func (a *arrivals) growBy(ctx context.Context, name string, n int64) <-chan error {
	b, done := a.bodies[name], make(chan error, 1)
	go func() { done <- a.grow(ctx, b, b.bytes+b.bytesPastShare+n, time.Now().Add(time.Minute)) }()
	synctest.Wait()
	return done
}

// mustStillWait checks that a body waits.
func mustStillWait(t *testing.T, what string, grown <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-grown:
		t.Errorf("%s does not wait: %v", what, err)
	default:
	}
}

// mustGrow checks that a body has what it wanted.
func mustGrow(t *testing.T, what string, grown <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-grown:
		testkit.Must(t, err)
	default:
		t.Errorf("%s waits", what)
	}
}

func TestBodiesPastTheShareOfTheirTeamWaitForEarlierOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, ctx := newArrivals(1000), t.Context()
		mustGrow(t, "a1", a.begin(ctx, "a1", 500))
		mustGrow(t, "a2, the one past the share", a.begin(ctx, "a2", 100))
		third, fourth := a.begin(ctx, "a3", 100), a.begin(ctx, "a4", 100)
		mustStillWait(t, "a3", third)
		mustStillWait(t, "a4", fourth)
		mustGrow(t, "a2, again", a.growBy(ctx, "a2", 100))
		mustGrow(t, "b1, of another team", a.begin(ctx, "b1", 100))

		a.end(a.bodies["a2"]) // a3 takes its place past the share
		mustGrow(t, "a3", third)
		mustStillWait(t, "a4", fourth)
		a.end(a.bodies["a1"])
		mustGrow(t, "a4", fourth)
		for _, b := range a.bodies {
			a.end(b)
		}
		if n := a.buffers.Taken(); n != 0 || a.pastShare != nil {
			t.Errorf("after the end %d bytes are taken, past the share: %v", n, a.pastShare)
		}
	})
}

func TestBodiesNeverTakeMoreThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, ctx := newArrivals(1000), t.Context()
		mustGrow(t, "a1", a.begin(ctx, "a1", 500))
		past := a.begin(ctx, "a2", 400)
		mustGrow(t, "a2, the one past the share", past)
		mustStillWait(t, "a2, past the limit", a.growBy(ctx, "a2", 101))
		mustStillWait(t, "b1", a.begin(ctx, "b1", 101))
		if n := a.buffers.Taken(); n != 900 {
			t.Errorf("%d bytes are taken", n)
		}
		time.Sleep(time.Minute)
	})
}

func TestWaitOfABodyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, begin := newArrivals(1000), time.Now()
		canceled, cancel := context.WithCancel(t.Context())
		mustGrow(t, "a1", a.begin(t.Context(), "a1", 1000))
		late, gone := a.begin(t.Context(), "a2", 1), a.begin(canceled, "a3", 1)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("of a client that is gone: %v", err)
		}
		if err := <-late; !errors.Is(err, errNoMemory) || time.Since(begin) != time.Minute {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		if len(a.waiting) != 0 {
			t.Errorf("%d bodies wait", len(a.waiting))
		}
	})
}

// A body that was sent is not read while earlier ones take the share of its team. It gets a 408,
// which counts; another team is served.
func TestBodyPastTheShareOfItsTeamIs408AndCounts(t *testing.T) {
	h := start(t, func(o *Options) {
		o.BodyTimeout = 50 * time.Millisecond
		o.LoadLimit.arriving.limit = 8 << 10
		o.Policies = policies(t, ratelimit.Limit{Name: "hour", Requests: 10, Per: time.Hour})
		o.Authenticator.(tokens)["other"] = &authn.Principal{TokenID: otherID, TeamID: otherID, Scopes: authn.NewScopes(authn.AllScopes()...), AIPlan: true}
	})
	h.services.reply("CreateIncident", &incidentv1.CreateIncidentResponse{Incident: fullIncident()})
	a := &h.gateway.options.LoadLimit.arriving
	earlier := []*arrivingBody{{team: teamID}, {team: teamID}} // the second one is past the share
	for _, b := range earlier {
		testkit.Must(t, a.grow(t.Context(), b, 3<<10, time.Now()))
	}
	body := newIncident + strings.Repeat(" ", 1<<10)
	late := h.do(t, "full", "POST", "/v1/incidents", body)
	late.mustFail(t, 408, "request_timeout")
	if budget := late.Header.Get("RateLimit"); !strings.Contains(budget, "r=9") {
		t.Errorf("RateLimit = %q, want the request counted", budget)
	}
	if log := h.log.String(); !strings.Contains(log, errNoMemory.Error()) {
		t.Errorf("the reason is not in the log: %s", log)
	}
	h.do(t, "other", "POST", "/v1/incidents", body).mustBe(t, 200)
	h.do(t, "full", "POST", "/v1/incidents", newIncident).mustBe(t, 200) // needs no buffer
	a.end(earlier[0])
	h.do(t, "full", "POST", "/v1/incidents", body).mustBe(t, 200)
}

// Over HTTP/2 a request whose body arrives takes memory before its body does, so there is a share
// of streams too.
func TestStreamsOfBodiesAreSharedByTeams(t *testing.T) {
	h := start(t, func(o *Options) { o.LoadLimit.arriving.limit = 2 * streamCost })
	h.services.reply("CreateIncident", &incidentv1.CreateIncidentResponse{Incident: fullIncident()})
	a, earlier := &h.gateway.options.LoadLimit.arriving, &arrivingBody{}
	client, url := serveHTTP2(t, h)
	create := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/incidents", strings.NewReader(newIncident))
		testkit.Must(t, err)
		req.Header.Set("Authorization", "Bearer full")
		resp, err := client.Do(req)
		testkit.Must(t, err)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := create(); got != 200 {
		t.Errorf("got %d", got)
	}
	testkit.Must(t, a.begin(earlier, teamID, true))
	if got := create(); got != 408 {
		t.Errorf("past the share: got %d", got)
	}
	testkit.Must(t, a.begin(&arrivingBody{}, otherID, true))
	a.end(earlier)
	if got := create(); got != 200 {
		t.Errorf("after the end of the earlier one: got %d", got)
	}
}

// A slowReader returns a chunk of a body with each read, and checks before it that no more than
// twice the bytes so far have a buffer.
type slowReader struct {
	t       *testing.T
	request *Request
	left    int
	arrived int
	largest int // buffer of a read
}

func (s *slowReader) Read(p []byte) (int, error) {
	accounted := int(s.request.arriving.bytes + s.request.arriving.bytesPastShare)
	size := s.arrived + len(p) // of the buffer
	if size > bodyStartBytes && (size > 2*s.arrived || accounted < size) {
		s.t.Errorf("after %d bytes, the buffer has %d, of which %d are accounted", s.arrived, size, accounted)
	}
	s.largest = max(s.largest, size)
	if s.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), s.left, 700)
	s.left, s.arrived = s.left-n, s.arrived+n
	return n, nil
}

func TestBufferOfABodyGrowsWithWhatArrives(t *testing.T) {
	for _, test := range []struct {
		length, announced int
		largest           int
	}{
		{0, 16 << 20, bodyStartBytes},
		{100, 16 << 20, bodyStartBytes},
		{5000, 16 << 20, 8 << 10},
		{100_000, 100_000, 100_001},
		{100_000, -1, 128 << 10},
	} {
		r := requestWithBody(16 << 20)
		r.gin.Request = httptest.NewRequest(http.MethodPost, "/v1/incidents", nil)
		r.gin.Request.ContentLength = int64(test.announced)
		body := &slowReader{t: t, request: r, left: test.length}
		data, err := r.readAll(body, time.Now())
		if err != nil || len(data) != test.length || body.largest != test.largest {
			t.Errorf("%+v: %d bytes, in a buffer of %d: %v", test, len(data), body.largest, err)
		}
		r.endBody()
		if n := r.gateway.options.LoadLimit.arriving.buffers.Taken(); n != 0 {
			t.Errorf("%+v: after the end %d bytes are accounted", test, n)
		}
	}
}

// busyConnection counts the authenticated requests of a connection.
type busyConnection struct {
	countingConnection

	busy atomic.Int32
}

func (c *busyConnection) MarkBusy() { c.busy.Add(1) }
func (c *busyConnection) MarkIdle() { c.busy.Add(-1) }

// While a body arrives, its request holds nothing that others need. Its memory is not kept during
// the call.
func TestArrivingBodyHoldsNoSlot(t *testing.T) {
	h := start(t, func(o *Options) {
		o.LoadLimit.SetLimit(1)
		o.Policies = policies(t, ratelimit.Limit{Name: "hour", Requests: 10, Per: time.Hour})
	})
	c, load := new(busyConnection), h.gateway.options.LoadLimit
	h.Server = httptest.NewUnstartedServer(h.gateway)
	h.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return WithConnection(ctx, c) }
	h.Start()
	t.Cleanup(h.Close)
	body := newIncident + strings.Repeat(" ", 8<<10)
	mustHold := func(when string, slots, busy, buffers int) {
		t.Helper()
		testkit.Eventually(t, when, func() bool {
			inFlight, _, _ := load.Stats()
			return inFlight == slots && int(c.busy.Load()) == busy && int(load.arriving.buffers.Taken()) == buffers
		})
	}
	arrived, release := make(chan struct{}), make(chan struct{})
	h.services.holding(arrived, release)
	h.services.on("CreateIncident", func(context.Context, proto.Message) (proto.Message, error) {
		mustHold("the call holds a slot, and no memory of the body", 1, 1, 0)
		return &incidentv1.CreateIncidentResponse{Incident: fullIncident()}, nil
	})

	conns := []net.Conn{h.connect(t), h.connect(t)}
	for i, conn := range conns {
		_, err := io.WriteString(conn, post(body[:5000], len(body)))
		testkit.Must(t, err)
		mustHold("the bodies hold no slot, and no connection is busy", 0, 0, (i+1)*8<<10)
	}
	held := make(chan error, 1)
	go func() {
		got, err := h.try("full", "GET", "/v1/servers")
		if err == nil {
			err = got.Body.Close()
		}
		held <- err
	}()
	<-arrived
	shed := h.send(t, conns[0], body[5000:])
	shed.mustFail(t, 503, "unavailable")
	h.sendRefunds(t)
	mustCount(t, h, "opsgate_rate_limit_refunds_total", map[string]float64{"": 1})
	mustCount(t, h, "opsgate_http_requests_shed_total", map[string]float64{"in_flight": 1})
	if budget := shed.Header.Get("RateLimit"); shed.Header.Get("Retry-After") != "1" || !strings.Contains(budget, "r=10") {
		t.Errorf("Retry-After %q, RateLimit %q; want the request refunded", shed.Header.Get("Retry-After"), budget)
	}
	if log := h.log.String(); strings.Contains(log, `"status":503`) {
		t.Errorf("the shed request is logged: %s", log)
	}
	close(release)
	testkit.Must(t, <-held)
	h.send(t, conns[1], body[5000:]).mustBe(t, 200)
	mustHold("nothing is held", 0, 0, 0)
}
