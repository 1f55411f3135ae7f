package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
)

// A bodyShape builds bodies of a given size that are expensive in one way.
type bodyShape struct {
	name  string
	valid bool
	make  func(size int) string
}

// bodyShapes are two valid bodies, the first of which has the maximal content, and invalid ones
// that are expensive to decode.
func bodyShapes() []bodyShape {
	const start = `{"title":"t","status":"resolved","impact":"none","message":"m"`
	field := func(begin, unit, end string) func(int) string {
		return func(size int) string { return repeatTo(size, start+begin, unit, end+"}") }
	}
	text := func(name, unit string) func(int) string {
		return func(size int) string { return repeatTo(size, `{"`+name+`":"`, unit, `"}`) }
	}
	nested := strings.Repeat("[", 62) + strings.Repeat("]", 62) + ","
	return []bodyShape{
		{"valid, longest message", true, func(size int) string {
			const unit = `\ud83d\ude00`
			n := min((size-100)/len(unit), maxMessage)
			return repeatTo(size, `{"title":"t","status":"resolved","impact":"none","message":"`+strings.Repeat(unit, n)+`"`, " ", "}")
		}},
		{"valid, white space", true, field("", " ", "")},
		{"distinct names", false, func(size int) string { return start + distinctNames(size-len(start)-1) + "}" }},
		{"distinct escaped names", false, field("", `,"\u0061`+"a"+`":0`, "")},
		{"names without characters", false, field("", `,"":0`, "")},
		{"one long name", false, field(`,"`, `\u00e4`, `":0`)},
		{"unknown name repeated", false, field("", `,"x":0`, "")},
		{"known name repeated", false, field("", `,"title":0`, "")},
		{"known escaped name repeated", false, field("", `,"\u0074itle":0`, "")},
		{"deep arrays", false, field(`,"x":[`, nested, `0]`)},
		{"deep arrays, last byte wrong", false, func(size int) string { return repeatTo(size, start+`,"x":[`, nested, `0}`) }},
		{"too deep", false, func(size int) string { return repeatTo(size, "", "[", "]") }},
		{"objects", false, field(`,"x":[`, `{},`, `0]`)},
		{"objects of objects", false, field(`,"x":[`, `{"":{}},`, `0]`)},
		{"arrays", false, field(`,"x":[`, `[],`, `0]`)},
		{"numbers", false, field(`,"x":[`, `0,`, `0]`)},
		{"long number", false, field(`,"x":`, `1`, ``)},
		{"fractions", false, field(`,"x":[`, `1.5e-7,`, `0]`)},
		{"words", false, field(`,"x":[`, `null,`, `0]`)},
		{"empty strings", false, field(`,"x":[`, `"",`, `0]`)},
		{"long title", false, text("title", "x")},
		{"title of line breaks", false, text("title", `\n`)},
		{"title of escapes", false, text("title", `\u00e4`)},
		{"title of surrogate pairs", false, text("title", `\ud83d\ude00`)},
		{"title of halves of pairs", false, text("title", `\ud83d`)},
		{"title of wide white space", false, text("title", "\u2003")},
		{"message of wide white space", false, text("message", "\u2003")},
		{"message of escaped white space", false, text("message", `\u2003`)},
		{"message of line breaks", false, text("message", `\n`)},
		{"message of fillers", false, text("message", "\U000e0100")},
		{"message of escaped fillers", false, text("message", `\ufe00`)},
		{"long status", false, text("status", `\\`)},
		{"long page id", false, text("statusPageId", `\u0061`)},
		{"components, repeated", false, field(`,"componentIds":[`, `"`+someID+`",`, `"`+someID+`"]`)},
		{"component of escapes", false, field(`,"componentIds":["`, `\u0061`, `"]`)},
		{"invalid UTF-8 at the end", false, func(size int) string { return repeatTo(size, start+`,"x":"`, "ä", "\xff\"}") }},
		{"not JSON at the end", false, func(size int) string { return repeatTo(size, start+`,"x":[`, `{"":""},`, `0]`) }},
		{"data behind the object", false, func(size int) string { return repeatTo(size, start+`,"x":[`, `{"":""},`, `0]} x`) }},
	}
}

// repeatTo returns begin, as many units as fit in size bytes, and end, preceded by white space up
// to the size.
func repeatTo(size int, begin, unit, end string) string {
	n := (size - len(begin) - len(end)) / len(unit)
	body := begin + strings.Repeat(unit, n) + end
	return strings.Repeat(" ", size-len(body)) + body
}

// distinctNames returns at most size bytes of fields with the shortest distinct names.
func distinctNames(size int) string {
	var b strings.Builder
	for i := 0; ; i++ {
		next := `,"` + strconv.FormatInt(int64(i), 36) + `":0`
		if b.Len()+len(next) > size {
			return b.String()
		}
		b.WriteString(next)
	}
}

// decodeBody decodes a body, encodes the error, and returns the size of the response.
func decodeBody(tb testing.TB, r *Request, shape bodyShape, body string) int {
	tb.Helper()
	r.gin.Request = httptest.NewRequest(http.MethodPost, "/v1/incidents", strings.NewReader(body))
	_, err := decodeCreateIncident(r)
	if (err == nil) != shape.valid {
		tb.Fatalf("%s: %v", shape.name, err)
	}
	if err == nil {
		return 0
	}
	var w jsonw.Writer
	problemOf(err, &r.route.Route, false).encode(&w)
	return len(w.Bytes())
}

func requestWithBody(limit int64) *Request {
	r := &Request{
		gateway: &Gateway{options: Options{MaxBodyBytes: limit, LoadLimit: unlimitedLoadLimit()}}, principal: &authn.Principal{}, base: new(requestContext), route: rowOf("v1CreateIncident"),
	}
	r.gin, _ = gin.CreateTestContext(httptest.NewRecorder())
	return r
}

// BenchmarkBody decodes bodies of the default maximal size and of four times that, each in turn
// with a valid body of the same size: the longest message in escapes, and white space. The metric
// valid-bodies is the ratio of the two minimal times, which is least affected by other load on the
// machine.
func BenchmarkBody(b *testing.B) {
	for _, size := range []int{defaultMaxBodyBytes, 4 * defaultMaxBodyBytes} {
		for _, shape := range bodyShapes() {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, shape.name), func(b *testing.B) {
				r, body := requestWithBody(int64(size)), shape.make(size)
				valid := bodyShapes()[0]
				validBody := valid.make(size)
				least, leastValid := time.Hour, time.Hour
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					leastValid = min(leastValid, timeBody(b, r, valid, validBody))
					b.StartTimer()
					least = min(least, timeBody(b, r, shape, body))
				}
				b.ReportMetric(float64(least)/float64(leastValid), "valid-bodies")
			})
		}
	}
}

func timeBody(tb testing.TB, r *Request, shape bodyShape, body string) time.Duration {
	tb.Helper()
	start := time.Now()
	decodeBody(tb, r, shape, body)
	return time.Since(start)
}
