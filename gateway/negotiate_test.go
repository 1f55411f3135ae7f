package gateway

import (
	"context"
	"net/netip"
	"testing"

	"opsgate/authn"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

func manyServers(n int) *fleetv1.ListServersResponse {
	resp := &fleetv1.ListServersResponse{}
	for range n {
		resp.Servers = append(resp.Servers, fullServer())
	}
	return resp
}

// FuzzIfNoneMatch of responses has the forms of the header.
func TestMatchingETagIs304(t *testing.T) {
	h := start(t)
	h.services.reply("ListIncidents", &incidentv1.ListIncidentsResponse{NextCursor: "next-1", CursorIgnored: true})
	page := h.get(t, "/v1/incidents?x").mustBe(t, 200)
	tag := page.Header.Get("ETag")
	again := h.get(t, "/v1/incidents?x", `If-None-Match: "x", W/`+tag).mustBe(t, 304)
	if again.body != "" || again.Header.Get("ETag") != tag {
		t.Errorf("body %q, ETag %s, want %s", again.body, again.Header.Get("ETag"), tag)
	}
	for _, name := range []string{"Content-Type", "Cursor-Status", "Ignored-Parameters", "Link"} { // of the cached page
		if page.Header.Get(name) == "" || again.Header.Get(name) != "" {
			t.Errorf("%s: %q, and with 304 %q", name, page.Header.Get(name), again.Header.Get(name))
		}
	}
	h.services.reply("ListIncidents", &incidentv1.ListIncidentsResponse{NextCursor: "next-2", CursorIgnored: true})
	h.get(t, "/v1/incidents?x", "If-None-Match: "+tag).mustBe(t, 200)
}

func TestLargeBodiesAreCompressed(t *testing.T) {
	h := start(t)
	h.services.reply("ListServers", manyServers(20))
	plain := h.get(t, "/v1/servers")
	zipped := h.get(t, "/v1/servers", "Accept-Encoding: br, gzip")
	if zipped.Header.Get("Content-Encoding") != "gzip" || zipped.Header.Get("Vary") != "Accept-Encoding" || plain.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("header %v", zipped.Header)
	}
	if data := unzip(t, zipped.body); data != plain.body || len(zipped.body) >= len(plain.body) {
		t.Errorf("%d bytes of gzip hold %d", len(zipped.body), len(data))
	}
	tag := zipped.Header.Get("ETag")
	if tag == plain.Header.Get("ETag") {
		t.Error("two representations have the same strong ETag")
	}
	h.get(t, "/v1/servers", "Accept-Encoding: gzip", "If-None-Match: "+tag).mustBe(t, 304)
	h.get(t, "/v1/servers", "If-None-Match: "+tag).mustBe(t, 304) // the same content

	h.services.reply("ListServers", manyServers(1))
	if small := h.get(t, "/v1/servers", "Accept-Encoding: gzip"); small.Header.Get("Content-Encoding") != "" {
		t.Error("a small body is compressed")
	}
}

func TestPagesAreInMarkdownForProgramsThatPreferIt(t *testing.T) {
	h := start(t)
	for _, path := range []string{"/docs/", "/docs/errors/"} {
		html := h.get(t, path)
		markdown := h.get(t, map[string]string{"/docs/": "/docs/index.md", "/docs/errors/": "/docs/errors.md"}[path]).mustBe(t, 200)
		for accept, want := range map[string]answer{
			"": html, "*/*": html, "text/*": html, "text/plain": html, "text/markdown;q=0": html, "text/markdown;q=0.5, */*": html,
			"text/markdown;q=0.8, text/html;level=1;q=0.9, */*;q=0.1": html,
			// a browser
			"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8": html,
			"text/markdown": markdown, "Text/Markdown; charset=utf-8; q=0.1": markdown, "text/markdown, */*;q=0.1": markdown,
			"text/markdown, text/html, */*": markdown, "*/*, text/*;q=0.4, text/html;q=0.3, text/markdown;q=0.3": markdown, "text/html;q=0.3, */*, text/markdown;q=0.3": markdown,
		} {
			got := h.get(t, path, "Accept: "+accept).mustBe(t, 200)
			if got.body != want.body || got.Header.Get("Content-Type") != want.Header.Get("Content-Type") ||
				got.Header.Get("Etag") != want.Header.Get("Etag") || got.Header.Get("Vary") != "Accept-Encoding, Accept" {
				t.Errorf("%s, Accept: %s: got %v", path, accept, got.Header)
			}
		}
		unchanged := h.get(t, path, "Accept: text/markdown", "If-None-Match: "+markdown.Header.Get("Etag")).mustBe(t, 304)
		if unchanged.Header.Get("Vary") != "Accept-Encoding, Accept" {
			t.Errorf("%s: got %v", path, unchanged.Header)
		}
	}
	if style := h.get(t, "/docs/docs.css", "Accept: text/markdown"); style.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("a style: got %v", style.Header)
	}
}

// sources is an Authenticator that records client addresses.
type sources struct{ seen chan netip.Addr }

func (s sources) Authenticate(_ context.Context, _ string, from authn.Source) (*authn.Principal, error) {
	s.seen <- from.ClientAddr()
	return nil, authn.ErrNotFound
}

// Lookups of unknown tokens are limited by client address: behind a trusted proxy the forwarded
// address, else the peer's.
func TestAuthenticatorGetsTheClientAddress(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		s := sources{make(chan netip.Addr, 1)}
		h := start(t, func(o *Options) {
			o.Authenticator = s
			if trusted {
				o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
		})
		h.get(t, "/v1/me", "X-Forwarded-For: 203.0.113.9").mustBe(t, 401)
		want := netip.MustParseAddr("127.0.0.1")
		if trusted {
			want = netip.MustParseAddr("203.0.113.9")
		}
		if got := <-s.seen; got != want {
			t.Errorf("with trusted proxies (%t): got %v, want %v", trusted, got, want)
		}
	}
}
