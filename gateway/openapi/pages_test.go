package openapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestJSONKeepsTheOrderOfKeys(t *testing.T) {
	const in = `
b: text
a:
  - 1
  - 2.5
  - true
  - null
  - "007"
  - <&> "quoted"
"200": {}
`
	const want = `{"b":"text","a":[1,2.5,true,null,"007","<&> \"quoted\""],"200":{}}`
	got, err := toJSON([]byte(in))
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAmbiguousYAMLIsRejected(t *testing.T) {
	for in, want := range map[string]string{
		"at: 2026-01-02T03:04:05.678Z": "quote it",
		"200: {}":                      "quote it",
		"a: &x {}\nb: *x":              "line 2",
		"a: [&x 1, *x]":                "line 1",
		"a: [":                         "reading YAML",
		"a: !!int x":                   "line 1",
		"a: .nan":                      "line 1",
	} {
		if got, err := toJSON([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
}

func TestEveryPageHasItsTypePolicyAndGzip(t *testing.T) {
	for path, contentType := range map[string]string{
		"/openapi.json":              "application/json; charset=utf-8",
		"/openapi.yaml":              "application/yaml; charset=utf-8",
		"/docs/":                     "text/html; charset=utf-8",
		"/docs/docs.css":             "text/css; charset=utf-8",
		"/docs/docs.js":              "text/javascript; charset=utf-8",
		"/docs/favicon-32x32.png":    "image/png",
		"/docs/swagger-ui.css":       "text/css; charset=utf-8",
		"/docs/swagger-ui-bundle.js": "text/javascript; charset=utf-8",
	} {
		page, ok := Lookup(path)
		if !ok || page.ContentType != contentType || len(page.Body) == 0 {
			t.Errorf("%s: %v, %q, %d bytes", path, ok, page.ContentType, len(page.Body))
			continue
		}
		if strings.HasPrefix(path, "/docs/") != (page.CSP != "") {
			t.Errorf("%s: Content-Security-Policy %q", path, page.CSP)
		}
		if body, err := unzip(page.Gzip); err != nil || !bytes.Equal(body, page.Body) {
			t.Errorf("%s: the gzip body differs from the body: %v", path, err)
		}
	}
	if page, _ := Lookup("/openapi.json"); !json.Valid(page.Body) {
		t.Error("/openapi.json is not JSON")
	}
	for _, path := range []string{
		"", "/", "/docs", "/docs/index.html", "/docs/../openapi.yaml", "/docs/swagger-ui.css.gz", "/docs//docs.js", "/openapi",
	} {
		if _, ok := Lookup(path); ok {
			t.Errorf("%q is a page", path)
		}
	}
}

// An inline script or style would need an exception in the Content-Security-Policy.
func TestPageHasNoInlineCode(t *testing.T) {
	page, _ := Lookup("/docs/")
	for _, inline := range []string{"<style", " style=", " onload=", "<script>", "javascript:", "http://", "https://"} {
		if bytes.Contains(page.Body, []byte(inline)) {
			t.Errorf("the page has %s", inline)
		}
	}
	for _, exception := range []string{"unsafe-", "*", "http"} {
		if strings.Contains(page.CSP, exception) {
			t.Errorf("the policy has %s", exception)
		}
	}
}
