package gateway

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/gateway/apidocs"
	"opsgate/gateway/baseurl"
)

// getPage gets a page with any Host. It returns the response and its decoded body.
func (h *harness) getPage(t *testing.T, path, host string, headers ...string) (*http.Response, string) {
	t.Helper()
	lines := append([]string{"GET " + path + " HTTP/1.1", "Host: " + host, "Connection: close"}, headers...)
	got := h.send(t, h.connect(t), strings.Join(lines, "\r\n")+"\r\n\r\n")
	if got.Header.Get("Content-Encoding") == "gzip" {
		got.body = unzip(t, got.body)
	}
	return got.Response, got.body
}

func unzip(t *testing.T, zipped string) string {
	t.Helper()
	reader, err := gzip.NewReader(strings.NewReader(zipped))
	testkit.Must(t, err)
	text, err := io.ReadAll(reader)
	testkit.Must(t, err)
	return string(text)
}

// embedded returns an embedded page, which has the placeholder.
func embedded(tb testing.TB, path string) string {
	tb.Helper()
	page, ok := apidocs.Lookup(path)
	if !ok || !bytes.Contains(page.Body, []byte(baseurl.Placeholder)) {
		tb.Fatalf("%s does not have %s", path, baseurl.Placeholder)
	}
	return string(page.Body)
}

func TestPagesHaveTheBaseURLOfTheRequest(t *testing.T) {
	h := start(t)
	tags := make(map[string]string)
	for _, path := range []string{"/openapi.json", "/openapi.yaml"} {
		for _, host := range []string{"localhost:8080", "ops.internal", "[::1]:9", "LOCALHOST"} {
			for _, encoding := range []string{"identity", "gzip"} {
				resp, body := h.getPage(t, path, host, "Accept-Encoding: "+encoding)
				if want := strings.ReplaceAll(embedded(t, path), baseurl.Placeholder, "http://"+host); resp.StatusCode != 200 || body != want {
					t.Errorf("%s of %s with %s: %s, the body differs", path, host, encoding, resp.Status)
				}
				if cache := resp.Header.Get("Cache-Control"); cache != "private, no-cache" {
					t.Errorf("a shared cache may keep the page of %s: %s", host, cache)
				}
				tag := resp.Header.Get("Etag")
				if other, taken := tags[tag]; taken {
					t.Errorf("%s of %s with %s has the ETag of %s", path, host, encoding, other)
				}
				tags[tag] = fmt.Sprint(path, host, encoding)
				again, _ := h.getPage(t, path, host, "Accept-Encoding: "+encoding, "If-None-Match: "+tag)
				elsewhere, _ := h.getPage(t, path, "other.internal", "Accept-Encoding: "+encoding, "If-None-Match: "+tag)
				if again.StatusCode != 304 || elsewhere.StatusCode != 200 {
					t.Errorf("If-None-Match: %s for the same host, %s for another", again.Status, elsewhere.Status)
				}
			}
		}
	}
}

func TestPagesHaveHTTPSIfTheConnectionHasTLS(t *testing.T) {
	server := httptest.NewTLSServer(start(t).gateway)
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/openapi.yaml")
	testkit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if want := strings.ReplaceAll(embedded(t, "/openapi.yaml"), baseurl.Placeholder, server.URL); err != nil || string(body) != want {
		t.Errorf("the page does not have %s: %v", server.URL, err)
	}
}

// Tools in a browser read what is public. Tokens do not belong there, so the API itself allows no origin.
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
	if len(catalog.Linkset) != 1 || catalog.Linkset[0].Anchor != h.URL+"/v1" || len(catalog.Linkset[0].Desc) != 2 {
		t.Fatal(got.body)
	}
	for _, link := range append(catalog.Linkset[0].Desc, catalog.Linkset[0].Doc...) {
		path, ok := strings.CutPrefix(link.Href, h.URL)
		if found := h.get(t, path); !ok || found.StatusCode != 200 || !strings.HasPrefix(found.Header.Get("Content-Type"), link.Type) {
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

// A client cannot put its text into a page, although the Host of a request is under its control.
func TestPagesDoNotRepeatInvalidHosts(t *testing.T) {
	h := start(t)
	want := embedded(t, "/openapi.json")
	for _, host := range []string{
		"", `x"onload="`, "<b>", "x'y", "a/b", "a?b", "a#b", "user@host", "a:b", "a:1:2", "a_b", "a b", "(a)", "a;b", "[::1", "[x]", "a%0d%0ab", "ä",
		strings.Repeat("a", 256),
	} {
		resp, body := h.getPage(t, "/openapi.json", host, "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https")
		if resp.StatusCode == 400 { // net/http refuses some
			continue
		}
		if resp.StatusCode != 200 || body != want {
			t.Errorf("%q: %s, the body is not the embedded page", host, resp.Status)
		}
		for name, values := range resp.Header {
			if host != "" && strings.Contains(strings.Join(values, " "), host) {
				t.Errorf("%q is in the header %s: %v", host, name, values)
			}
		}
	}
}

func TestPagesHaveThePublicURLForEachHost(t *testing.T) {
	const public = "https://ops.acme.example"
	h := start(t, func(o *Options) { o.PublicURL = public })
	want := strings.ReplaceAll(embedded(t, "/openapi.json"), baseurl.Placeholder, public)
	for i, host := range []string{"localhost:8080", "ops.internal", "a_b", ""} {
		resp, body := h.getPage(t, "/openapi.json", host, "Accept-Encoding: gzip")
		if resp.StatusCode != 200 || body != want || resp.Header.Get("Cache-Control") != "public, no-cache" {
			t.Errorf("Host %q: %s, %q, the expected body: %v", host, resp.Status, resp.Header.Get("Cache-Control"), body == want)
		}
		if kept := len(h.gateway.documentation.kept); kept != 1 {
			t.Errorf("after %d hosts, %d pages are kept", i+1, kept)
		}
	}
}

// Hosts are under the control of clients. Pages for any number of them occupy limited memory, and then cost no compression until a page
// has not been used for minIdle.
func TestPagesOfManyHostsOccupyLimitedMemory(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := start(t, func(o *Options) { o.Clock = func() time.Time { return now } })
	kept := func() (pages, size int) {
		h.gateway.documentation.mu.Lock()
		defer h.gateway.documentation.mu.Unlock()
		if listed := h.gateway.documentation.byUse.Len(); listed != len(h.gateway.documentation.kept) {
			t.Errorf("%d pages are listed", listed)
		}
		return len(h.gateway.documentation.kept), h.gateway.documentation.size
	}
	flood := func(name string) {
		t.Helper()
		for i := range 4 * maxHostPageBytes / len(embedded(t, "/openapi.json")) {
			h.getPage(t, "/openapi.json", fmt.Sprint(name, i))
		}
		if pages, size := kept(); pages < 10 || size < maxHostPageBytes || size > maxHostPageBytes+200_000 {
			t.Errorf("%d pages of %d bytes are kept", pages, size)
		}
	}
	isCompressed := func(host string) bool {
		t.Helper()
		resp, body := h.getPage(t, "/openapi.json", host, "Accept-Encoding: gzip")
		want := strings.ReplaceAll(embedded(t, "/openapi.json"), baseurl.Placeholder, "http://"+host)
		if body != want || resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %v, the expected body: %v", host, resp.Header, body == want)
		}
		return resp.Header.Get("Content-Encoding") == "gzip"
	}
	flood("invented-")
	if !isCompressed("invented-0") || isCompressed("real") {
		t.Error("in the second of the flood, the first Host has no kept page, or another one has")
	}
	now = now.Add(minIdle)
	if !isCompressed("real") {
		t.Error("after the flood, the page of another Host is not compressed")
	}
	now = now.Add(minIdle / 2)
	if !isCompressed("real") {
		t.Error("the page is not kept")
	}
	now = now.Add(minIdle / 2)
	flood("again-")
	pages, _ := kept()
	if !isCompressed("real") || isCompressed("invented-0") {
		t.Error("a second flood evicts a page in use, or none that is not in use")
	}
	if pagesNow, _ := kept(); pagesNow != pages {
		t.Errorf("%d pages are kept, before %d", pagesNow, pages)
	}
	style, _ := h.getPage(t, "/docs/docs.css", "new", "Accept-Encoding: gzip")
	if style.Header.Get("Content-Encoding") != "gzip" || style.Header.Get("Cache-Control") != "public, no-cache" {
		t.Errorf("a page without the base URL has %v", style.Header)
	}
}

// The bound holds for concurrent requests too: a page that is being compressed has its room already, and is compressed once.
func TestConcurrentRequestsCompressNoMorePagesThanAreKept(t *testing.T) {
	h := start(t)
	began, proceed := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	newWriter := h.gateway.gzipWriters.New
	h.gateway.gzipWriters.New = func() any {
		if calls.Add(1) == 1 {
			close(began)
			<-proceed
		}
		return newWriter()
	}
	encoding := func(host string) string {
		resp, _ := h.getPage(t, "/openapi.json", host, "Accept-Encoding: gzip")
		return resp.Header.Get("Content-Encoding")
	}
	h.gateway.documentation.size = maxHostPageBytes - 1 // room for one page
	first := make(chan string)
	go func() {
		defer close(first)
		first <- encoding("first")
	}()
	<-began
	for _, host := range []string{"second", "first"} {
		if encoding(host) != "" {
			t.Errorf("while the page of the first Host is being compressed, that of the %s is too", host)
		}
	}
	close(proceed)
	if <-first != "gzip" || encoding("first") != "gzip" {
		t.Error("the page of the first Host is not compressed and kept")
	}
}

// BenchmarkPage measures a page with the base URL: kept, made for a request, and the largest page that has none.
func BenchmarkPage(b *testing.B) {
	for _, c := range []struct{ name, path, host string }{
		{"kept", "/openapi.json", "kept.example"}, {"made", "/openapi.json", "new.example"}, {"without", "/docs/schemas/", "new.example"},
	} {
		b.Run(c.name, func(b *testing.B) {
			o, now := optionsWith(b, &services{}), time.Now()
			o.Clock = func() time.Time { return now } // so that the kept page stays
			g, err := New(o)
			testkit.Must(b, err)
			req := httptest.NewRequest("GET", c.path, nil)
			req.Header.Set("Accept-Encoding", "gzip")
			w := &discardWriter{header: make(http.Header)}
			req.Host = "kept.example"
			g.ServeHTTP(w, req)
			req.Host, g.documentation.size = c.host, maxHostPageBytes
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				g.ServeHTTP(w, req)
			}
		})
	}
}
