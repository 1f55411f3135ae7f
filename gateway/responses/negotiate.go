package responses

import (
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// minGzipBytes is the size of the largest body that is not compressed (docs/integrate/contract.md,
// "Caching").
const minGzipBytes = 1 << 10

// A Representation is the form in which a client gets a body.
type Representation struct {
	Gzip        bool
	ETag        string // "" for a response to POST
	NotModified bool   // the client has the body: the response is a 304
}

// Negotiate returns the representation of a body in the response to a request. The ETag is strong
// and depends on the content only. A body with gzip is another representation, with another ETag
// (RFC 9110, section 8.8.3.3).
func Negotiate(req *http.Request, body []byte) Representation {
	n := Representation{Gzip: len(body) > minGzipBytes && acceptsGzip(req.Header["Accept-Encoding"])}
	if req.Method != http.MethodPost {
		n.ETag = entityTag(body, n.Gzip)
		n.NotModified = matchesTag(req.Header["If-None-Match"], n.ETag)
	}
	return n
}

// PrefersMarkdown reports whether Accept names text/markdown, with at least the weight of text/html
// (RFC 9110, section 12.5.1). Programs that name both prefer Markdown; browsers name only HTML.
func PrefersMarkdown(req *http.Request) bool {
	// The most specific media range that matches text/html determines its weight; specific is the
	// length of that range.
	var markdown, html, specific int
	for _, line := range req.Header["Accept"] {
		for item := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(item, ";")
			switch name = strings.TrimSpace(name); {
			case strings.EqualFold(name, "text/markdown"):
				markdown = weight(params)
			case len(name) > specific &&
				(name == "*/*" || strings.EqualFold(name, "text/*") || strings.EqualFold(name, "text/html")):
				html, specific = weight(params), len(name)
			}
		}
	}
	return markdown > 0 && markdown >= html
}

// acceptsGzip reports whether Accept-Encoding accepts gzip, by its name or, if the name is missing,
// by * (RFC 9110, section 12.5.3).
func acceptsGzip(header []string) bool {
	wildcard := false
	for _, line := range header {
		for item := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(item, ";")
			switch name = strings.TrimSpace(name); {
			case strings.EqualFold(name, "gzip"), strings.EqualFold(name, "x-gzip"):
				return weight(params) > 0
			case name == "*":
				wildcard = weight(params) > 0
			}
		}
	}
	return wildcard
}

// weight returns the weight (q) among the parameters of an item, in thousandths. Without a weight,
// it returns 1000 (RFC 9110, section 12.4.2).
func weight(params string) int {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		fraction, below1 := strings.CutPrefix(value, "0")
		if !strings.EqualFold(name, "q") || !below1 {
			continue
		}
		thousandths, unit := 0, 100
		for _, digit := range []byte(strings.TrimPrefix(fraction, ".")) {
			thousandths, unit = thousandths+int(digit-'0')*unit, unit/10
		}
		return thousandths
	}
	return 1000
}

// gzipSuffix ends the ETag of a compressed body.
const gzipSuffix = "-gzip"

func entityTag(body []byte, useGzip bool) string {
	var tag [24]byte
	b := append(tag[:0], '"')
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], xxhash.Sum64(body))
	b = hex.AppendEncode(b, sum[:])
	if useGzip {
		b = append(b, gzipSuffix...)
	}
	return string(append(b, '"'))
}

// matchesTag reports whether If-None-Match matches the tag by weak comparison (RFC 9110, section
// 13.1.2). The tags with and without gzipSuffix match each other, because the content is the same.
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

// contentTag returns the part of a tag that depends on the content only.
func contentTag(tag string) string {
	return strings.TrimSuffix(strings.Trim(tag, `"`), gzipSuffix)
}
