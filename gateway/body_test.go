package gateway

import (
	"testing"
	"time"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

// FuzzContentEncoding has the forms of the header, and the texts of the response.
func TestContentEncodings(t *testing.T) {
	h := start(t)
	h.services.reply("CreateIncident", &incidentv1.CreateIncidentResponse{Incident: fullIncident()})
	h.do(t, "full", "POST", "/v1/incidents", newIncident, "Content-Encoding: identity").mustBe(t, 200)
	for _, refused := range [][]string{{"Content-Encoding: gzip"}, {"Content-Encoding: identity", "Content-Encoding: deflate"}} {
		got := h.do(t, "full", "POST", "/v1/incidents", newIncident, refused...)
		got.mustFail(t, 415, "unsupported_media_type")
		if got.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%q: Accept-Encoding %q", refused, got.Header.Get("Accept-Encoding"))
		}
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
