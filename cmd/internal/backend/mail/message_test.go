package mail_test

import (
	"io"
	"maps"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"slices"
	"strings"
	"testing"

	"opsgate/cmd/internal/backend/mail"
	"opsgate/internal/testkit"
)

// alternatives returns the decoded text and HTML of a message, and fails if it has other parts.
func alternatives(t testing.TB, m *netmail.Message) (text, html string) {
	t.Helper()
	kind, parameters, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	testkit.Must(t, err)
	if kind != "multipart/alternative" {
		t.Fatalf("content type %s", kind)
	}
	reader := multipart.NewReader(m.Body, parameters["boundary"])
	var parts []string
	for _, want := range []string{"text/plain; charset=UTF-8", "text/html; charset=UTF-8"} {
		part, err := reader.NextPart() // decodes quoted-printable
		testkit.Must(t, err)
		if got := part.Header.Get("Content-Type"); got != want {
			t.Fatalf("part of type %s, want %s", got, want)
		}
		content, err := io.ReadAll(part)
		testkit.Must(t, err)
		parts = append(parts, strings.ReplaceAll(string(content), "\r\n", "\n"))
	}
	if _, err := reader.NextPart(); err != io.EOF {
		t.Fatalf("a third part: %v", err)
	}
	return parts[0], parts[1]
}

func TestIncidentMessage(t *testing.T) {
	s := start(t)
	testkit.Must(t, s.sender(t, func(o *mail.Options) { o.PageURL = "https://{hostname}/" }).Send(t.Context(), message()))
	got := s.only(t)
	if got.From != "status@harbour.example" || got.To != "ada@harbour.example" {
		t.Errorf("from %q to %q", got.From, got.To)
	}
	m := parse(t, got.Text)
	want := map[string]string{
		"From":             `"Harbour Status" <status@harbour.example>`,
		"To":               "<ada@harbour.example>",
		"Subject":          "[Harbour] Slow berths: investigating",
		"Date":             "Sun, 01 Mar 2026 11:30:15 +0000",
		"Message-Id":       "<0199aa00-0000-7000-8000-000000000001@harbour.example>",
		"In-Reply-To":      "<0199aa00-0000-7000-8000-0000000000ff@harbour.example>",
		"References":       "<0199aa00-0000-7000-8000-0000000000ff@harbour.example>",
		"List-Id":          "<p.harbour.example>",
		"List-Unsubscribe": "<https://status.harbour.example/manage/s?page=p>",
		"Auto-Submitted":   "auto-generated",
		"Mime-Version":     "1.0",
		"Content-Type":     m.Header.Get("Content-Type"), // with a random boundary
	}
	for name, value := range want {
		if got := m.Header[name]; !slices.Equal(got, []string{value}) {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	if names := slices.Sorted(maps.Keys(m.Header)); len(names) != len(want) {
		t.Errorf("the header fields are %q", names)
	}
	text, html := alternatives(t, m)
	const wantText = `New incident: Slow berths

Status: Investigating
Impact: Major
Affected:
- Berth API
- Tides
Time: 2026-03-01 11:30:15 UTC

We look into it.

<b>Not bold</b> & = plain.

-- 
Harbour (status.harbour.example)
Status page: https://status.harbour.example/
Manage your subscription, or unsubscribe: https://status.harbour.example/manage/s?page=p
`
	if text != wantText {
		t.Errorf("the text is\n%s", text)
	}
	for _, part := range []string{
		`<meta name="color-scheme" content="light dark">`, "Slow berths</h1>", "We look into it.<br>", "&lt;b&gt;Not bold&lt;/b&gt; &amp; = plain.",
		"Berth API<br>Tides", `<a href="https://status.harbour.example/manage/s?page=p">`,
	} {
		if !strings.Contains(html, part) {
			t.Errorf("the HTML lacks %s:\n%s", part, html)
		}
	}
}

// A client shows an encoded-word in a title, and not what it encodes.
func TestEncodedWordInATitleIsText(t *testing.T) {
	s := start(t)
	m := message()
	m.Incident.Title = "=?utf-8?q?=0D=0ABcc:_eve?="
	testkit.Must(t, s.sender(t).Send(t.Context(), m))
	got, err := new(mime.WordDecoder).DecodeHeader(parse(t, s.only(t).Text).Header.Get("Subject"))
	if want := "[Harbour] = ?utf-8?q?=0D=0ABcc:_eve?=: investigating"; err != nil || got != want {
		t.Errorf("the subject is %q, want %q: %v", got, want, err)
	}
}
