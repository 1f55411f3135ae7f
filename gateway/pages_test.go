package gateway

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"opsgate/gateway/apidocs"
	"opsgate/internal/testkit"
)

func unzip(t *testing.T, zipped string) string {
	t.Helper()
	reader, err := gzip.NewReader(strings.NewReader(zipped))
	testkit.Must(t, err)
	text, err := io.ReadAll(reader)
	testkit.Must(t, err)
	return string(text)
}

// Nothing of a request is in a page, so that all clients share it.
func TestPagesAreTheSameForEveryHost(t *testing.T) {
	for _, public := range []string{"", "https://ops.acme.example"} {
		h := start(t, func(o *Options) { o.PublicURL = public })
		pages := apidocs.New(public)
		for _, path := range []string{"/openapi.json", "/openapi.yaml", "/docs/", "/llms.txt", apidocs.CatalogPath} {
			want, _ := pages.Lookup(path)
			var tag string
			for _, host := range []string{"localhost:8080", `x"onload="`, "", "a/b"} {
				lines := []string{"GET " + path + " HTTP/1.1", "Host: " + host, "X-Forwarded-Host: evil.example", "Accept-Encoding: gzip", "Connection: close"}
				got := h.send(t, h.connect(t), strings.Join(lines, "\r\n")+"\r\n\r\n")
				if got.StatusCode == 400 { // net/http refuses some
					continue
				}
				if got.Header.Get("Content-Encoding") == "gzip" {
					got.body = unzip(t, got.body)
				}
				if got.StatusCode != 200 || got.body != string(want.Body) || got.Header.Get("Cache-Control") != "public, no-cache" {
					t.Errorf("%s of %q: %s, %q, the expected body: %v", path, host, got.Status, got.Header.Get("Cache-Control"), got.body == string(want.Body))
				}
				if tag = cmp.Or(tag, got.Header.Get("Etag")); tag == "" || got.Header.Get("Etag") != tag {
					t.Errorf("%s of %q has the ETag %s, another host %s", path, host, got.Header.Get("Etag"), tag)
				}
			}
		}
	}
}

// Tools in a browser read what is public. Tokens do not belong there, so the API itself allows no
// origin.
func TestOnlyPublicPagesAllowAnyOrigin(t *testing.T) {
	h := start(t, func(o *Options) { o.SecurityContact = "mailto:security@acme.example" })
	for target, want := range map[string]string{
		"/openapi.json": "*", "/openapi.yaml": "*", "/llms.txt": "*", "/llms-full.txt": "*", "/docs/": "*", "/docs/errors/": "*", "/docs/docs.css": "*",
		"/.well-known/api-catalog": "*", "/.well-known/security.txt": "*",
		"/v1/me": "", "/v1/nothing": "",
	} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			got := h.do(t, "full", method, target, "", "Origin: https://elsewhere.example")
			allowed := got.Header.Values("Access-Control-Allow-Origin")
			if strings.Join(allowed, "|") != want && method != "OPTIONS" || len(got.Header.Values("Access-Control-Allow-Credentials")) > 0 {
				t.Errorf("%s %s: %v", method, target, got.Header)
			}
		}
		page := h.get(t, target)
		if tag := page.Header.Get("Etag"); tag != "" {
			if again := h.get(t, target, "If-None-Match: "+tag).mustBe(t, 304); again.Header.Get("Access-Control-Allow-Origin") != want {
				t.Errorf("%s, not modified: %v", target, again.Header)
			}
		}
	}
}

func TestCatalogLinksToTheDescriptions(t *testing.T) {
	h := start(t)
	got := h.get(t, "/.well-known/api-catalog").mustBe(t, 200)
	const mediaType = `application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"`
	if got.Header.Get("Content-Type") != mediaType || got.Header.Get("Link") != `</.well-known/api-catalog>; rel="api-catalog"` {
		t.Errorf("%v", got.Header)
	}
	if head := h.do(t, "", "HEAD", "/.well-known/api-catalog", "").mustBe(t, 200); head.Header.Get("Link") != got.Header.Get("Link") {
		t.Errorf("HEAD: %v", head.Header)
	}
	type target struct{ Href, Type string }
	var catalog struct {
		Linkset []struct {
			Anchor string
			Desc   []target `json:"service-desc"`
			Doc    []target `json:"service-doc"`
		}
	}
	decoder := json.NewDecoder(strings.NewReader(got.body))
	decoder.DisallowUnknownFields()
	testkit.Must(t, decoder.Decode(&catalog))
	if len(catalog.Linkset) != 1 || catalog.Linkset[0].Anchor != "/v1" || len(catalog.Linkset[0].Desc) != 2 {
		t.Fatal(got.body)
	}
	for _, link := range append(catalog.Linkset[0].Desc, catalog.Linkset[0].Doc...) {
		if found := h.get(t, link.Href); found.StatusCode != 200 || !strings.HasPrefix(found.Header.Get("Content-Type"), link.Type) {
			t.Errorf("%+v: %d, %v", link, found.StatusCode, found.Header)
		}
	}
}

func TestSecurityContactExpires(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := start(t, func(o *Options) {
		o.SecurityContact, o.Clock = "mailto:security@acme.example", func() time.Time { return now }
	})
	for _, expires := range []string{"2026-04-02", "2026-04-03"} {
		got := h.do(t, "", "GET", "/.well-known/security.txt", "").mustBe(t, 200)
		if want := "Contact: mailto:security@acme.example\nExpires: " + expires + "T00:00:00Z\n"; got.body != want {
			t.Errorf("%s, want %s", got.body, want)
		}
		if got.Header.Get("Content-Type") != "text/plain; charset=utf-8" || got.Header.Get("Cache-Control") != "public, no-cache" {
			t.Errorf("%v", got.Header)
		}
		now = now.Add(24 * time.Hour)
	}
	start(t).do(t, "", "GET", "/.well-known/security.txt", "").mustFail(t, 404, "not_found")
}

// BenchmarkPage measures the largest page.
func BenchmarkPage(b *testing.B) {
	g, err := New(optionsWith(b, &services{}))
	testkit.Must(b, err)
	req := httptest.NewRequest("GET", "/docs/schemas/", nil)
	req.Header.Set("Accept-Encoding", "gzip")
	w := &discardWriter{header: make(http.Header)}
	g.ServeHTTP(w, req)
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		g.ServeHTTP(w, req)
	}
}
