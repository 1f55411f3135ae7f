package gateway

import (
	"strings"
	"testing"
	"time"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

func TestContentEncodings(t *testing.T) {
	h := start(t)
	h.services.reply("CreateIncident", &incidentv1.CreateIncidentResponse{Incident: fullIncident()})
	for _, accepted := range []string{"", "identity", "Identity", ", identity ,", "identity, identity"} {
		h.do(t, "full", "POST", "/v1/incidents", newIncident, "Content-Encoding: "+accepted).mustBe(t, 200)
	}
	for refused, shown := range map[string]string{
		"gzip": "gzip", "GZIP": "GZIP", "gzip, identity": "gzip", "identity,br": "br", "x-gzip;q=1": "x-gzip;q=1",
		strings.Repeat("x", 33): "", "two words": "", "gz\u00fcp": "",
	} {
		got := h.do(t, "full", "POST", "/v1/incidents", newIncident, "Content-Encoding: "+refused)
		got.mustFail(t, 415, "unsupported_media_type")
		want := `"error":"the request body must have no Content-Encoding`
		if shown != "" {
			want += ": " + shown + " is not supported"
		}
		if !strings.Contains(got.body, want+`"`) || got.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%q: %s, Accept-Encoding %q", refused, got.body, got.Header.Get("Accept-Encoding"))
		}
	}
	twice := []string{"Content-Encoding: identity", "Content-Encoding: deflate"}
	h.do(t, "full", "POST", "/v1/incidents", newIncident, twice...).mustFail(t, 415, "unsupported_media_type")
	if log := h.log.String(); !strings.Contains(log, `"cause":"input:media-type"`) {
		t.Errorf("the cause is not in the log: %s", log)
	}
}

// The number of allocations must not depend on the shape or size of a body, except for buffers that
// grow by doubling.
func TestBodyAllocationsDoNotDependOnItsShape(t *testing.T) {
	const size = 64 << 10
	r := requestWithBody(4 * size)
	for _, shape := range bodyShapes() {
		small, large := shape.make(size), shape.make(4*size)
		few := testing.AllocsPerRun(5, func() { decodeBody(t, r, shape, small) })
		many := testing.AllocsPerRun(5, func() { decodeBody(t, r, shape, large) })
		if few > 250 || many > few+10 {
			t.Errorf("%s: %.0f allocations, %.0f for four times the size", shape.name, few, many)
		}
	}
}

// A body of the maximum size costs at most three times as much as a valid one, whatever it
// contains. The minimal times are compared, which other load on the machine affects least.
func TestWorstCaseBodiesAreCheapAndTheirErrorsShort(t *testing.T) {
	r, shapes := requestWithBody(defaultMaxBodyBytes), bodyShapes()
	valid := shapes[0].make(defaultMaxBodyBytes)
	for _, shape := range shapes {
		least, leastValid, body := time.Hour, time.Hour, shape.make(defaultMaxBodyBytes)
		for range 20 {
			least, leastValid = min(least, timeBody(t, r, shape, body)), min(leastValid, timeBody(t, r, shapes[0], valid))
		}
		if least > 3*leastValid {
			t.Errorf("%s: %v, a valid body %v", shape.name, least, leastValid)
		}
		if n := decodeBody(t, r, shape, body); n > 16<<10 {
			t.Errorf("%s: an answer of %d bytes", shape.name, n)
		}
	}
}
