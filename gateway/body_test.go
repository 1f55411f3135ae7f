package gateway

import (
	"strings"
	"testing"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

func TestContentEncodings(t *testing.T) {
	h := start(t)
	h.services.reply("CreateIncident", &incidentv1.CreateIncidentResponse{Incident: fullIncident()})
	const body = `{"title":"t","status":"resolved","impact":"none","message":"m"}`
	for _, accepted := range []string{"", "identity", "Identity", ", identity ,", "identity, identity"} {
		h.do(t, "full", "POST", "/v1/incidents", body, "Content-Encoding: "+accepted).mustBe(t, 200)
	}
	for refused, shown := range map[string]string{
		"gzip": "gzip", "GZIP": "GZIP", "gzip, identity": "gzip", "identity,br": "br", "x-gzip;q=1": "x-gzip;q=1",
		strings.Repeat("x", 33): "", "two words": "", "gz\u00fcp": "",
	} {
		got := h.do(t, "full", "POST", "/v1/incidents", body, "Content-Encoding: "+refused)
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
	h.do(t, "full", "POST", "/v1/incidents", body, twice...).mustFail(t, 415, "unsupported_media_type")
	if log := h.log.String(); !strings.Contains(log, `"cause":"input:media-type"`) {
		t.Errorf("the cause is not in the log: %s", log)
	}
}

// The number of allocations must not depend on the shape or size of a body, except for buffers that grow by doubling.
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

func TestErrorsForWorstCaseBodiesAreShort(t *testing.T) {
	r := requestWithBody(defaultMaxBodyBytes)
	for _, shape := range bodyShapes() {
		if n := decodeBody(t, r, shape, shape.make(defaultMaxBodyBytes)); n > 16<<10 {
			t.Errorf("%s: an answer of %d bytes", shape.name, n)
		}
	}
}

func TestJSONErrorsReportTheirPosition(t *testing.T) {
	for body, want := range map[string]string{
		"":                   "is empty; it must be a JSON object",
		" \n":                "is empty; it must be a JSON object",
		"\xff":               "is not valid UTF-8",
		"\xef\xbb\xbf{}":     "begins with a byte order mark (BOM); send UTF-8 without it",
		"\xff\xfe{\x00}\x00": "begins with a byte order mark (BOM) of UTF-16; send UTF-8 without it",
		"\xfe\xff\x00{\x00}": "begins with a byte order mark (BOM) of UTF-16; send UTF-8 without it",
		"{}\ufeff":           "has more after its JSON value, at byte 3",
		" {":                 "is not JSON: the mistake is at byte 3",
		"{'a':1}":            "is not JSON: the mistake is at byte 2",
		`{"a" 1}`:            "is not JSON: the mistake is at byte 6",
		`{"a":01}`:           "is not JSON: the mistake is at byte 7",
		`{"a":[1,]}`:         "is not JSON: the mistake is at byte 9",
		`{"a":{"b":1,}}`:     "is not JSON: the mistake is at byte 13",
		`{"a":nul}`:          "is not JSON: the mistake is at byte 9",
		`{"a":1,}`:           "is not JSON: the mistake is at byte 8",
		"{\"a\":\"\n\"}":     "is not JSON: the mistake is at byte 7",
		`{"a":"\u12x4"}`:     "is not JSON: the mistake is at byte 11",
		`{"a":"`:             "is not JSON: the mistake is at byte 7",
		"\x00":               "is not JSON: the mistake is at byte 1",
		`{"a":1} {}`:         "has more after its JSON value, at byte 9",
		"[1] 2":              "has more after its JSON value, at byte 5",
		` [{"a":[1.5e-7]}] `: "must be a JSON object",
		"null":               "must be a JSON object",
		nestedArrays(64):     "has a value that is nested deeper than 63 levels",
		nestedArrays(20_000): "has a value that is nested deeper than 63 levels",
	} {
		err := (&Body{}).readObject([]byte(body))
		if err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", body, err, want)
		}
	}
	if err := (&Body{}).readObject([]byte(nestedArrays(63))); err != nil {
		t.Errorf("63 levels: %v", err)
	}
	if err := (&Body{}).readObject([]byte("[" + strings.Repeat("0,", 1000) + "0]")); err == nil || err.Error() != "has more than 1000 values" {
		t.Errorf("an array of 1001 values: %v", err)
	}
}

func TestByteOrderMarkIsNamed(t *testing.T) {
	details := start(t).do(t, "full", "POST", "/v1/incidents", "\xef\xbb\xbf"+newIncident).mustFail(t, 422, "validation_error")
	if len(details) != 1 || !strings.Contains(details["body"], "byte order mark (BOM)") {
		t.Errorf("details = %v", details)
	}
}

func nestedArrays(n int) string {
	return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
}

func TestBodyIsReadUpTo1000Values(t *testing.T) {
	h := start(t)
	const title, wrong = `"title":"t"`, `"status":"open"`
	for _, c := range []struct{ name, body, fields string }{
		{"1000 values", "{" + title + "," + wrong + `,"x":[` + strings.Repeat("0,", 996) + "0]}", "impact message status x"},
		{"1001 values", "{" + title + "," + wrong + `,"x":[` + strings.Repeat("0,", 997) + "0]}", "body status x"},
		{"objects", "{" + title + "," + wrong + `,"x":[` + strings.Repeat(`{"a":{}},`, 500) + "0]}", "body status x"},
		{"components", "{" + title + `,"componentIds":[` + strings.Repeat(`"`+someID+`",`, 1500) + "0]}", "body componentIds"},
		{"known fields behind the others", "{" + strings.Repeat(`"x":0,`, 1000) + title + "," + wrong + "}", "body title x"},
		{"no JSON behind them", "{" + title + "," + wrong + `,"x":[` + strings.Repeat("0,", 1000) + "nonsense", "body status x"},
	} {
		details := h.do(t, "full", "POST", "/v1/incidents", c.body).mustFail(t, 422, "validation_error")
		if got := strings.Join(sortedKeys(details), " "); got != c.fields {
			t.Errorf("%s: details name %q, want %q", c.name, got, c.fields)
		}
	}
}

func TestWhiteSpaceAroundTextsIsLimited(t *testing.T) {
	const char = `\ud83d\ude00`
	tooLong := "must have at most 255 characters (Unicode code points), with at most 1000 of white space around them"
	for literal, want := range map[string]string{
		`"` + strings.Repeat(`\u2003\n`, 500) + strings.Repeat(char, 255) + strings.Repeat(" ", 500) + `"`: "",
		`"` + strings.Repeat(`\u2003\n`, 500) + strings.Repeat(char, 256) + `"`:                            "must have at most 255 characters (Unicode code points), not 256",
		`"x` + strings.Repeat(" ", 1255*12-3) + `"`:                                                        "",
		`"x` + strings.Repeat(" ", 1255*12-2) + `"`:                                                        tooLong,
		`"` + strings.Repeat(char, 1255) + `"`:                                                             tooLong,
		`"` + strings.Repeat(`\n`, 1000) + `"`:                                                             "must have a character that can be seen",
		`"` + strings.Repeat(`\n`, 1000) + `\ud83d\u0061"`:                                                 "holds half of a surrogate pair",
	} {
		b := &Body{fields: []field{{name: "title", value: []byte(literal)}}}
		if b.Text("title", 255); b.problems["title"] != want {
			t.Errorf("%.20s of %d bytes: %q, want %q", literal, len(literal), b.problems["title"], want)
		}
	}
}
