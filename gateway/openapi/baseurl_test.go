package openapi_test

import (
	"net/url"
	"strings"
	"testing"

	"opsgate/gateway/openapi"
)

var validHosts = []string{
	"localhost", "localhost:8080", "api.example.com", "API.Example.com:443", "10.0.0.1", "10.0.0.1:1", "[::1]", "[2001:db8::1]:8443",
	"[::ffff:10.0.0.1]", "xn--bcher-kva.example", "a-b.c", "example.com.", strings.Repeat("a", 255),
}

var invalidHosts = []string{
	"", ":8080", "a:", "a:65536", "a:123456", "a:-1", "a:+1", "a:b", "a:1:2", "-a", ".a", "a_b", "a b", "a\tb", "a\n", "a\r\nx: y", "a\x00",
	"user@host", "a/b", "a\\b", "a?b", "a#b", "a%41", "ä.example", "a<b", `a"b`, "a'b", "a`b", "a$(b)", "a;b", "a&b", "a|b", "a,b", "{a}",
	"[", "[]", "[::1", "::1", "[::1]x", "[::1]:", "[10.0.0.1]", "[fe80::1%eth0]", "[:::]", "[g::1]", strings.Repeat("a", 256),
}

func TestCheck(t *testing.T) {
	for _, host := range validHosts {
		for _, scheme := range []string{"http://", "https://"} {
			if err := openapi.CheckBaseURL(scheme + host); err != nil {
				t.Errorf("%s%s: %v", scheme, host, err)
			}
		}
		for _, url := range []string{
			host, "//" + host, "ftp://" + host, "HTTPS://" + host, " https://" + host, "https://" + host + "/", "https://" + host + "/v1",
			"https://" + host + "?a=b", "https://" + host + "#a", "https://user@" + host, "https://user:password@" + host, "https:" + host,
		} {
			if openapi.CheckBaseURL(url) == nil {
				t.Errorf("accepts %q", url)
			}
		}
	}
	for _, host := range invalidHosts {
		if openapi.CheckBaseURL("https://"+host) == nil {
			t.Errorf("accepts %q", host)
		}
	}
}

// A base URL must have the same meaning for a URL parser, and nothing that a page, a shell or a
// header interprets.
func FuzzCheck(f *testing.F) {
	for _, host := range append(validHosts, invalidHosts...) {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		base := "https://" + host
		if openapi.CheckBaseURL(base) != nil {
			return
		}
		if i := strings.IndexFunc(base, interpreted); i >= 0 || len(base) > len("https://")+255 {
			t.Fatalf("%q has %q", base, base[i:])
		}
		parsed, err := url.Parse(base + "/v1")
		if err != nil || parsed.Host != host || parsed.Path != "/v1" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
			t.Fatalf("%q parses as %#v, %v", base, parsed, err)
		}
	})
}

// interpreted reports whether a character of a URL is not literal in HTML, JSON, YAML, Markdown
// code, a shell's quotes or a header.
func interpreted(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("<>&\"'`\\$;|(){}!*?#%@,=+^~", r)
}
