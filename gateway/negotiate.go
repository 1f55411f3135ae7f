package gateway

import (
	"strings"

	"github.com/klauspost/compress/gzip"
)

// minGzipBytes is the size above which a body is compressed (docs/integrate/contract.md,
// "Caching").
const minGzipBytes = 1 << 10

// compress returns the body compressed with gzip, in a buffer of the request.
func (r *Request) compress(body []byte) []byte {
	w, _ := r.gateway.gzipWriters.Get().(*gzip.Writer)
	defer r.gateway.gzipWriters.Put(w)
	r.compressed.Reset()
	w.Reset(&r.compressed)
	_, _ = w.Write(body) // a bytes.Buffer returns no error
	_ = w.Close()
	return r.compressed.Bytes()
}

// acceptsGzip reports whether Accept-Encoding accepts gzip: by name, or by * if gzip is not named
// (RFC 9110, section 12.5.3).
func acceptsGzip(header []string) bool {
	wildcard := false
	for _, line := range header {
		for item := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(item, ";")
			switch name = strings.TrimSpace(name); {
			case strings.EqualFold(name, "gzip"), strings.EqualFold(name, "x-gzip"):
				return !zeroWeight(params)
			case name == "*":
				wildcard = !zeroWeight(params)
			}
		}
	}
	return wildcard
}

// zeroWeight reports whether the parameters have the weight zero, which means "not acceptable".
func zeroWeight(params string) bool {
	const weight = "q="
	params = strings.TrimSpace(params)
	return len(params) >= len(weight) && strings.EqualFold(params[:len(weight)], weight) &&
		strings.Trim(params[len(weight):], "0.") == ""
}

// matchesTag reports whether If-None-Match matches the tag by weak comparison (RFC 9110, section
// 13.1.2). The tag of the other encoding also matches, because the content is the same.
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
	return strings.TrimSuffix(strings.Trim(tag, `"`), gzipSuffix)
}
