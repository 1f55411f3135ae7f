package mail_test

import (
	"bytes"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/mail"
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

func decoded(t testing.TB, header string) string {
	t.Helper()
	text, err := new(mime.WordDecoder).DecodeHeader(header)
	testkit.Must(t, err)
	return text
}

func TestIncidentMessage(t *testing.T) {
	s := start(t)
	testkit.Must(t, s.sender(t, func(o *mail.Options) { o.PageURL = "https://{hostname}/" }).Send(t.Context(), message()))
	got := s.only(t)
	if got.from != "status@harbour.example" || got.to != "ada@harbour.example" || s.hello != "backend.example" {
		t.Errorf("from %q to %q by %q", got.from, got.to, s.hello)
	}
	m := parse(t, got.text)
	want := map[string]string{
		"From":             `"Harbour Status" <status@harbour.example>`,
		"To":               "<ada@harbour.example>",
		"Subject":          "[Harbour] Slow berths: investigating",
		"Date":             "Sun, 01 Mar 2026 11:30:15 +0000",
		"Message-Id":       "<0199aa00-0000-7000-8000-000000000001@status.harbour.example>",
		"In-Reply-To":      "<0199aa00-0000-7000-8000-0000000000ff@status.harbour.example>",
		"References":       "<0199aa00-0000-7000-8000-0000000000ff@status.harbour.example>",
		"List-Id":          "<status.harbour.example>",
		"List-Unsubscribe": "<https://status.harbour.example/manage/s?page=p>",
		"Auto-Submitted":   "auto-generated",
		"Mime-Version":     "1.0",
		"Content-Type":     "multipart/alternative; boundary=alternative-0199aa00-0000-7000-8000-000000000001",
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
	for _, part := range []string{"<script", "<img", "src=", "url(", "@import", "<link"} {
		if strings.Contains(strings.ToLower(html), part) {
			t.Errorf("the HTML contains %s", part)
		}
	}
}

// The bytes of all attempts are the same, so that receivers recognise a repeat.
func TestAttemptsHaveTheSameBytes(t *testing.T) {
	s := start(t)
	m := message()
	for attempt := range 5 {
		m.Attempt = attempt + 1
		testkit.Must(t, s.sender(t).Send(t.Context(), m))
	}
	all := s.messages()
	for _, later := range all {
		if len(all) != 5 || !bytes.Equal(later.text, all[0].text) {
			t.Fatalf("%d messages; the first and a later one:\n%s\n%s", len(all), all[0].text, later.text)
		}
	}
}

// A client shows an encoded-word in a title as the text that it is, not what it encodes.
func TestEncodedWordInATitleIsText(t *testing.T) {
	for _, title := range []string{"=?utf-8?q?=0D=0ABcc:_eve?=", "a =?UTF-8?B?DQo=?= b", "=?=?=?", strings.Repeat("=?x?q?y?= ", 12) + "end"} {
		s := start(t)
		m := message()
		m.Incident.Title = title
		testkit.Must(t, s.sender(t).Send(t.Context(), m))
		got := decoded(t, parse(t, s.only(t).text).Header.Get("Subject"))
		if want := "[Harbour] " + title + ": investigating"; got != want {
			t.Errorf("the subject is %q, want %q", got, want)
		}
	}
}
