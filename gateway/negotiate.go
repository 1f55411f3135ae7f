package gateway

import (
	"strings"

	"github.com/klauspost/compress/gzip"
)

// minZipBytes is the size of a body below which gzip saves nothing worth its time (decisions, "Responses").
const minZipBytes = 1 << 10

// zip returns body in gzip, in a buffer that the request owns.
func (r *Request) zip(body []byte) []byte {
	zipper, _ := r.gateway.zippers.Get().(*gzip.Writer)
	defer r.gateway.zippers.Put(zipper)
	r.zipped.Reset()
	zipper.Reset(&r.zipped)
	_, _ = zipper.Write(body) // a bytes.Buffer takes everything
	_ = zipper.Close()
	return r.zipped.Bytes()
}

// acceptsGzip reads Accept-Encoding (RFC 9110, section 12.5.3): gzip by name, or by * where gzip has no entry of its own.
func acceptsGzip(header []string) bool {
	others := false
	for _, line := range header {
		for item := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(item, ";")
			switch name = strings.TrimSpace(name); {
			case strings.EqualFold(name, "gzip"), strings.EqualFold(name, "x-gzip"):
				return !zeroWeight(params)
			case name == "*":
				others = !zeroWeight(params)
			}
		}
	}
	return others
}

// zeroWeight says whether the parameters have a weight of zero, which means "not acceptable".
func zeroWeight(params string) bool {
	const weight = "q="
	params = strings.TrimSpace(params)
	return len(params) >= len(weight) && strings.EqualFold(params[:len(weight)], weight) && strings.Trim(params[len(weight):], "0.") == ""
}

// matchesTag reads If-None-Match (RFC 9110, section 13.1.2), comparing weakly as it must. A tag of the other encoding counts
// too: the client that holds it holds the same content.
func matchesTag(header []string, tag string) bool {
	want := contentTag(tag)
	for _, line := range header {
		for item := range strings.SplitSeq(line, ",") {
			item = strings.TrimSpace(item)
			if item == "*" || contentTag(strings.TrimPrefix(item, "W/")) == want {
				return true
			}
		}
	}
	return false
}

func contentTag(tag string) string {
	return strings.TrimSuffix(strings.Trim(tag, `"`), zippedSuffix)
}
