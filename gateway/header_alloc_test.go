package gateway

import (
	"math"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"opsgate/gateway/decode"
	"opsgate/gateway/responses"
	"opsgate/internal/netaddr"
)

// Headers and queries have up to 16 KiB in thousands of elements. Parsing them must not allocate
// for each element.
func TestHeaderParsingDoesNotAllocatePerElement(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	forwarded := func(lines []string) {
		netaddr.ClientOf("10.0.0.9:1", lines, trusted)
	}
	body := make([]byte, 2<<10)
	negotiate := func(name string, lines []string) {
		responses.Negotiate(&http.Request{Header: http.Header{name: lines}}, body)
	}
	for _, c := range []struct {
		name, part string
		read       func(lines []string)
	}{
		{"escaped parameters", "%6cimi%75=1&", func(lines []string) {
			q := decode.NewQuery(lines[0])
			_, _ = q.Int("limit", 1, 100, 50), q.Text("action")
		}},
		{"unknown parameters", "a%5c=1&%c3%a4&", func(lines []string) { decode.NewQuery(lines[0]).Unknown([]string{"limit"}, "ops_live_") }},
		{"empty hops", ",", forwarded},
		{"trusted hops", "10.0.0.1,", forwarded},
		{"hops that are not addresses", "10.0.0,", forwarded},
		{"accepted types", "text/html;q=0,*/*,text/markdown;q=x,", func(lines []string) {
			responses.PrefersMarkdown(&http.Request{Header: http.Header{"Accept": lines}})
		}},
		{"accepted codings", "GZI;\tq=0 ,* ; q=0,", func(lines []string) { negotiate("Accept-Encoding", lines) }},
		{"codings of a body", "Identity ,", func(lines []string) { contentCoding(lines) }},
		{"entity tags", `W/"x-gzip" , `, func(lines []string) { negotiate("If-None-Match", lines) }},
		{"parameters of a media type", "application/json;a=b;", func(lines []string) { isJSON(lines) }},
	} {
		lines := []string{strings.Repeat(c.part, (16<<10)/len(c.part))}
		few := testing.AllocsPerRun(10, func() { c.read(lines) })
		if bytes := bytesPerRun(10, func() { c.read(lines) }); few > 5 || bytes > 4<<10 {
			t.Errorf("%s: %.0f allocations, %d bytes", c.name, few, bytes)
		}
	}
}

// bytesPerRun returns the number of bytes that a function allocates: the least of several runs, as
// goroutines of other tests allocate too.
func bytesPerRun(runs int, f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range runs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
