package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"opsgate/internal/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// FuzzQuery has more forms of invalid values.
func TestInvalidQueryValuesAre422(t *testing.T) {
	h := start(t)
	server := "/v1/servers/" + someID
	for target, fields := range map[string]string{
		"/v1/incidents?limit=1&limit=1":                      "limit",
		"/v1/audit?action=%00&limit=x":                       "action limit",
		server + "/commands?page=-1&pageSize=101":            "page pageSize",
		server + "/commands?page=2147483647&pageSize=2":      "page",
		server + "/commands?page=21474837&pageSize=100":      "page",
		server + "/metrics?range=2h":                         "range",
		"/v1/monitors/" + someID + "/checks?since=yesterday": "since",
	} {
		details := h.get(t, target).mustFail(t, 422, "validation_error")
		if got := strings.Join(slices.Sorted(maps.Keys(details)), " "); got != fields {
			t.Errorf("%s: details name %q, want %q", target, got, fields)
		}
	}
}

func TestValidQueryValuesReachTheService(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := start(t, func(o *Options) { o.Clock = func() time.Time { return now } })
	server, monitor := "/v1/servers/"+someID, "/v1/monitors/"+someID
	incidents := func(size int32, cursor string) proto.Message {
		return &incidentv1.ListIncidentsRequest{TeamId: teamID, PageSize: size, Cursor: cursor}
	}
	audit := func(size int32, prefix string) proto.Message {
		return &auditv1.ListAuditEntriesRequest{TeamId: teamID, PageSize: size, ActionPrefix: prefix}
	}
	commands := func(page, size int32) proto.Message {
		return &fleetv1.ListServerCommandsRequest{TeamId: teamID, ServerId: someID, Page: page, PageSize: size}
	}
	checks := func(since time.Time) proto.Message {
		return &monitoringv1.ListMonitorChecksRequest{TeamId: teamID, MonitorId: someID, Since: timestampOf(since)}
	}
	cases := []struct {
		target string
		want   proto.Message
	}{
		{"/v1/incidents", incidents(50, "")},
		{"/v1/incidents?limit=1&_=cachebuster&limits=9", incidents(1, "")},
		{"/v1/incidents?cursor=&limit=100", incidents(100, "")},
		{"/v1/incidents?cursor=a%2Db&unknown=%zz", incidents(50, "a-b")},
		{"/v1/audit?action=", audit(50, "")},
		{"/v1/audit?action=incident.&limit=7", audit(7, "incident.")},
		{"/v1/audit?action=%25_", audit(50, "%_")},
		{server + "/commands", commands(1, 20)},
		{server + "/commands?page=21474836&pageSize=100", commands(21474836, 100)},
		{monitor + "/checks", checks(now.Add(-24 * time.Hour))},
		{monitor + "/checks?since=2026-01-02T03:04:05Z", checks(now)},
		{monitor + "/checks?since=2026-01-02T03:04:05.123456789Z", checks(now.Add(123456789))},
		{monitor + "/checks?since=2026-01-02T05:04:05%2B02:00", checks(now)},
		{monitor + "/checks?since=2026-01-02T05:04:05+02:00", checks(now)},
		{monitor + "/checks?since=2026-01-02T05:04:05%2B0200", checks(now)},
		{monitor + "/checks?since=2026-01-02T05:04:05+0200", checks(now)},
		{monitor + "/checks?since=2026-01-01T22:04:05-0500", checks(now)},
		{monitor + "/checks?since=2999-01-01T00:00:00Z", checks(time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC))},
		{monitor + "/checks?since=0000-01-01T00:00:00Z", checks(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))},
		{monitor + "/checks?since=9999-12-31T23:59:59-14:00", checks(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))},
	}
	for name, span := range map[string]fleetv1.MetricRange{"": 2, "?range=1h": 1, "?range=24h": 2, "?range=7d": 3, "?range=30d": 4} {
		cases = append(cases, struct {
			target string
			want   proto.Message
		}{server + "/metrics" + name, &fleetv1.GetServerMetricsRequest{TeamId: teamID, ServerId: someID, Range: span}})
	}
	h.services.reply("ListIncidents", &incidentv1.ListIncidentsResponse{})
	h.services.reply("ListAuditEntries", &auditv1.ListAuditEntriesResponse{})
	h.services.reply("ListServerCommands", &fleetv1.ListServerCommandsResponse{})
	h.services.reply("ListMonitorChecks", &monitoringv1.ListMonitorChecksResponse{})
	h.services.reply("GetServerMetrics", &fleetv1.GetServerMetricsResponse{Resolution: 1})
	for _, c := range cases {
		h.get(t, c.target).mustBe(t, 200)
		if diff := cmp.Diff(c.want, h.services.lastRequest(), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", c.target, diff)
		}
	}
}

func TestInvalidCursorsAreIgnored(t *testing.T) {
	h := start(t)
	resp := &incidentv1.ListIncidentsResponse{NextCursor: "next-1"}
	h.services.reply("ListIncidents", resp)
	cases := []struct {
		query, sent, status string
	}{
		{"", "", ""},
		{"?cursor=abc", "abc", ""},
		{"?cursor=abc&cursor=abc", "", "ignored"},
		{"?cursor=%ff", "", "ignored"},
	}
	for _, c := range cases {
		got := h.get(t, "/v1/incidents"+c.query).mustBe(t, 200)
		if cursor := h.services.lastRequest().(*incidentv1.ListIncidentsRequest).Cursor; cursor != c.sent {
			t.Errorf("%s: the service got %q", c.query, cursor)
		}
		if status := got.Header.Get("Cursor-Status"); status != c.status {
			t.Errorf("%s: Cursor-Status %q, want %q", c.query, status, c.status)
		}
	}
	link := h.get(t, "/v1/incidents?limit=7&x=y&cursor=abc").Header.Get("Link")
	if link != `</v1/incidents?cursor=next-1&limit=7>; rel="next"` {
		t.Errorf("Link = %q", link)
	}
	resp.CursorIgnored, resp.NextCursor = true, ""
	got := h.get(t, "/v1/incidents?cursor=strange")
	if got.Header.Get("Cursor-Status") != "ignored" || got.Header.Get("Link") != "" {
		t.Errorf("Cursor-Status %q, Link %q", got.Header.Get("Cursor-Status"), got.Header.Get("Link"))
	}
}

// FuzzQuery of decode has the forms of names.
func TestUnknownParametersAreNamed(t *testing.T) {
	h := start(t)
	h.services.reply("ListIncidents", &incidentv1.ListIncidentsResponse{})
	h.services.reply("CreateIncident", &incidentv1.CreateIncidentResponse{Incident: fullIncident()})
	for query, want := range map[string]string{
		"?%6cimit=1&cursor=":       "",
		"?sort=a&limit=5&status=b": `"sort", "status"`,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := h.do(t, "full", method, "/v1/incidents"+query, "").mustBe(t, 200)
			if ignored := got.Header.Values("Ignored-Parameters"); strings.Join(ignored, "|") != want {
				t.Errorf("%s %s: Ignored-Parameters %q, want %q", method, query, ignored, want)
			}
		}
	}
	posted := h.do(t, "full", "POST", "/v1/incidents?notifySubscribers=false&title=x", validBody(rowOf("v1CreateIncident").Route)).mustBe(t, 200)
	if got := posted.Header.Get("Ignored-Parameters"); got != `"notifySubscribers", "title"` {
		t.Errorf("POST: Ignored-Parameters %q: its fields are no parameters", got)
	}
	if got := h.do(t, "full", "OPTIONS", "/v1/incidents?x=1", "").mustBe(t, 204).Header.Get("Ignored-Parameters"); got != "" {
		t.Errorf("OPTIONS: Ignored-Parameters %q", got)
	}
}

// FuzzBody has more forms of invalid bodies.
func TestInvalidBodiesAre422(t *testing.T) {
	h := start(t)
	create, update := "/v1/incidents", "/v1/incidents/"+someID+"/updates"
	for _, c := range []struct{ name, target, body, fields string }{
		{"empty", create, "", "body"},
		{"nothing", create, "{}", "impact message status title"},
		{"everything wrong", create, `{"title":1,"status":"open","impact":"huge","message":"","statusPageId":"x","componentIds":"y","extra":1}`,
			"componentIds extra impact message status statusPageId title"},
		{"typo must not notify", update, `{"status":"resolved","message":"m","notifySubscriber":false}`, "notifySubscriber"},
		{"null must not notify", update, `{"status":"resolved","message":"m","notifySubscribers":null}`, "notifySubscribers"},
		{"field of the other body", update, `{"status":"resolved","message":"m","impact":"none"}`, "impact"},
	} {
		t.Run(c.name, func(t *testing.T) {
			details := h.do(t, "full", "POST", c.target, c.body).mustFail(t, 422, "validation_error")
			if got := strings.Join(slices.Sorted(maps.Keys(details)), " "); got != c.fields {
				t.Errorf("details name %q, want %q", got, c.fields)
			}
		})
	}
	if h.services.lastRequest() != nil {
		t.Error("a bad body reached the service")
	}
}

func TestValidBodiesReachTheService(t *testing.T) {
	h := start(t)
	h.services.reply("CreateIncident", &incidentv1.CreateIncidentResponse{Incident: fullIncident()})
	h.services.reply("AddIncidentUpdate", &incidentv1.AddIncidentUpdateResponse{Update: &incidentv1.IncidentUpdate{Id: someID, Status: 4}})
	actor := &incidentv1.Actor{TokenId: tokenID, IpAddress: "127.0.0.1", RequestId: "r1"}
	cases := []struct {
		name, target, body string
		want               proto.Message
		headers            []string
	}{
		{"smallest", "/v1/incidents", `{"title":"  T\n","status":"monitoring","impact":"critical","message":"m"}`, &incidentv1.CreateIncidentRequest{
			TeamId: teamID, Actor: actor, Title: "T", Status: 3, Impact: 4, Message: "m",
		}, nil},
		{"nulls are absent", "/v1/incidents", `{"title":"T","status":"monitoring","impact":"critical","message":"m","statusPageId":null,"componentIds":null}`,
			&incidentv1.CreateIncidentRequest{TeamId: teamID, Actor: actor, Title: "T", Status: 3, Impact: 4, Message: "m"}, nil},
		{"largest", "/v1/incidents", ` {"title":"` + strings.Repeat("ä", 255) + `","status":"investigating","impact":"minor","message":"` + strings.Repeat("😀", 10_000) +
			`","statusPageId":"` + strings.ToUpper(someID) + `","componentIds":["` + otherID + `","` + strings.ToUpper(otherID) + `","` + someID + `"]}` + "\n",
			&incidentv1.CreateIncidentRequest{
				TeamId: teamID, Actor: actor, Title: strings.Repeat("ä", 255), Status: 1, Impact: 2, Message: strings.Repeat("😀", 10_000),
				StatusPageId: proto.String(someID), ComponentIds: []string{otherID, someID}, IdempotencyKey: "k~1",
			}, []string{"Idempotency-Key: k~1", "Content-Type: application/json; charset=utf-8"}},
		{"line breaks, tabs and U+FFFD", "/v1/incidents", `{"title":"\ufffd\uD83D\uDE00","status":"resolved","impact":"none","message":"a\r\n\tb�"}`, &incidentv1.CreateIncidentRequest{
			TeamId: teamID, Actor: actor, Title: "\ufffd😀", Status: 4, Impact: 1, Message: "a\r\n\tb\ufffd",
		}, nil},
		{"update notifies", "/v1/incidents/" + someID + "/updates", `{"status":"identified","message":"m"}`, &incidentv1.AddIncidentUpdateRequest{
			TeamId: teamID, Actor: actor, IncidentId: someID, Status: 2, Message: "m", NotifySubscribers: true,
		}, nil},
		{"update without notification", "/v1/incidents/" + someID + "/updates", `{"status":"identified","message":"m","notifySubscribers":false}`,
			&incidentv1.AddIncidentUpdateRequest{TeamId: teamID, Actor: actor, IncidentId: someID, Status: 2, Message: "m"}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h.do(t, "full", "POST", c.target, c.body, append(c.headers, "X-Request-Id: r1")...).mustBe(t, 200)
			if diff := cmp.Diff(c.want, h.services.lastRequest(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzContentType has more types.
func TestOtherContentTypesAre415(t *testing.T) {
	h := start(t)
	h.do(t, "full", "POST", "/v1/incidents", "{}", "Content-Type: Application/JSON;charset=utf-8").mustFail(t, 422, "validation_error")
	for _, headers := range [][]string{{"Content-Type: text/plain"}, {"Content-Type: application/json", "Content-Type: text/plain"}} {
		got := h.do(t, "full", "POST", "/v1/incidents", "{}", headers...)
		got.mustFail(t, 415, "unsupported_media_type")
		if !strings.Contains(got.body, "application/json") {
			t.Errorf("%s does not name application/json", got.body)
		}
	}
}

func TestTooLargeBodiesAre413(t *testing.T) {
	h := start(t, func(o *Options) { o.MaxBodyBytes = 100 })
	big := `{"title":"` + strings.Repeat("x", 100) + `"}`
	h.do(t, "full", "POST", "/v1/incidents", big).mustFail(t, 413, "payload_too_large")
	h.do(t, "full", "POST", "/v1/incidents", strings.Repeat(" ", 98)+"{}").mustFail(t, 422, "validation_error")

	req, _ := http.NewRequestWithContext(t.Context(), "POST", h.URL+"/v1/incidents", struct{ *strings.Reader }{strings.NewReader(big)})
	req.Header.Set("Authorization", "Bearer full")
	resp, err := http.DefaultClient.Do(req)
	testkit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 413 || !resp.Close {
		t.Errorf("chunked: %d, closing: %t; want 413 and the end of the connection", resp.StatusCode, resp.Close)
	}
}

// FuzzIdempotencyKey has the forms of keys.
func TestInvalidIdempotencyKeyIsReportedWithTheFields(t *testing.T) {
	details := start(t).do(t, "full", "POST", "/v1/incidents", "{}", "Idempotency-Key: two words").mustFail(t, 422, "validation_error")
	if len(details) != 5 || details["Idempotency-Key"] == "" {
		t.Errorf("details %v", details)
	}
}
