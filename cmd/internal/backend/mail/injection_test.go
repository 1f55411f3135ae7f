package mail_test

import (
	"maps"
	netmail "net/mail"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/mail"
)

// hostile draws texts that could end a line, a header, a part or a message, or hide what follows.
func hostile(limit int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{
				"\r\n", "\n", "\r", "\r\n\r\n", "\r\n.\r\n", "\r\nBcc: eve@harbour.example\r\n", "\x00", "\x1b", "\u0085", "\u2028", "\u202e",
				"\u2066", `"`, `\`, "<", ">", "@", "=?utf-8?q?=0D=0ABcc:_eve?=", "=?UTF-8?B?DQo=?=", "?=", "=", "=0D=0A", ".", " ", "  ", "\t",
				"é", "日本", "😀", "e\u0301", "\xff", "\xc3", "&lt;", "<script>alert(1)</script>", `"><img src=x>`, "{{.Page}}", "%s", "Slow berths",
				"--alternative-0199aa00-0000-7000-8000-000000000001\r\n", "--alternative-0199aa00-0000-7000-8000-000000000001--\r\n",
				strings.Repeat("x", 1000), strings.Repeat("long words ", 1000), strings.Repeat("日", 10_000),
			}),
			rapid.StringN(0, 20, -1),
		), 0, limit).Draw(t, "parts")
		return strings.Join(parts, "")
	})
}

// wantLine is what the text should be as one line: the specification of what the package does to it.
func wantLine(text string) string {
	var b strings.Builder
	for _, r := range text { // U+FFFD for what is not UTF-8
		switch {
		case unicode.Is(unicode.Bidi_Control, r):
		case unicode.IsControl(r), unicode.IsSpace(r), r == '\u2028', r == '\u2029':
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return strings.Join(strings.Split(strings.Trim(squeeze(b.String()), " "), " "), " ")
}

func squeeze(text string) string {
	for strings.Contains(text, "  ") {
		text = strings.ReplaceAll(text, "  ", " ")
	}
	return text
}

func shorten(text string, limit int) string {
	if r := []rune(text); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return text
}

// validUTF8 has one U+FFFD for each run of invalid bytes, as in strings.ToValidUTF8.
func validUTF8(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }

// No text of a team, and no address, adds or changes a header field, a part, a recipient or markup.
func TestHeaderInjection(t *testing.T) {
	s := start(t)
	sender := s.sender(t)
	seen := 0
	rapid.Check(t, func(r *rapid.T) {
		m := message()
		m.Page.Name, m.Incident.Title = hostile(5).Draw(r, "page"), hostile(5).Draw(r, "title")
		m.Page.Hostname, m.Update.Status = hostile(2).Draw(r, "hostname"), hostile(1).Draw(r, "status")
		m.Incident.Impact, m.Update.Message = hostile(1).Draw(r, "impact"), hostile(10).Draw(r, "message")
		m.Incident.Components[0].Name = hostile(3).Draw(r, "component")
		m.ID, m.Incident.ID = hostile(1).Draw(r, "id"), hostile(1).Draw(r, "incident id")
		m.Event = rapid.SampledFrom([]string{delivery.IncidentCreated, delivery.UpdatePosted}).Draw(r, "event")
		testkit.Must(r, sender.Send(t.Context(), m))
		all := s.messages()
		if seen++; len(all) != seen {
			r.Fatalf("%d messages for %d", len(all), seen)
		}
		checkIncident(t, r, m, all[seen-1])
	})
}

// checkIncident reads a message and compares it with what was sent.
func checkIncident(t *testing.T, r *rapid.T, m delivery.Message, got received) {
	t.Helper()
	if got.to != "ada@harbour.example" {
		r.Fatalf("to %s", got.to)
	}
	for line := range strings.SplitSeq(string(got.text), "\r\n") {
		if len(line) > 998 || strings.ContainsAny(line, "\r\n\x00") || strings.ContainsFunc(line, func(c rune) bool { return c >= 0x80 }) {
			r.Fatalf("the line %q", line)
		}
	}
	parsed := parse(t, got.text)
	names := slices.Sorted(maps.Keys(parsed.Header))
	if want := []string{
		"Auto-Submitted", "Content-Type", "Date", "From", "In-Reply-To", "List-Id", "List-Unsubscribe",
		"Message-Id", "Mime-Version", "References", "Subject", "To",
	}; !slices.Equal(names, want) {
		r.Fatalf("the header fields are %q", names)
	}
	for name, values := range parsed.Header {
		if len(values) != 1 {
			r.Fatalf("%s: %q", name, values)
		}
	}
	page, title := wantLine(validUTF8(m.Page.Name)), wantLine(validUTF8(m.Incident.Title))
	status := shorten(wantLine(validUTF8(m.Update.Status)), 40)
	subject := squeeze("[" + shorten(page, 60) + "] " + shorten(title, 140) + ": " + strings.ReplaceAll(status, "_", " "))
	if got := decoded(t, parsed.Header.Get("Subject")); strings.TrimSpace(squeeze(got)) != strings.TrimSpace(subject) {
		r.Fatalf("the subject is %q, want %q", got, subject)
	}
	if to, err := netmail.ParseAddressList(parsed.Header.Get("To")); err != nil || len(to) != 1 {
		r.Fatalf("to %v: %v", to, err)
	}
	text, markup := alternatives(t, parsed)
	if first, _, _ := strings.Cut(text, "\n"); !strings.HasSuffix(first, ": "+title) {
		r.Fatalf("the first line is %q, want %q", first, title)
	}
	checkMarkup(r, markup, title)
}

// checkMarkup checks that the HTML has only elements and attributes of the templates, and the title as its heading.
func checkMarkup(r *rapid.T, markup, title string) {
	elements := []string{"html", "head", "meta", "title", "body", "div", "p", "h1", "table", "tr", "td", "strong", "br", "a"}
	attributes := []string{"lang", "charset", "name", "content", "style", "role", "href"}
	tokens := html.NewTokenizer(strings.NewReader(markup))
	for tokens.Next() != html.ErrorToken {
		token := tokens.Token()
		if token.Type == html.TextToken || token.Type == html.DoctypeToken {
			continue
		}
		if token.Type == html.CommentToken || !slices.Contains(elements, token.Data) {
			r.Fatalf("the HTML contains %s", token)
		}
		for _, a := range token.Attr {
			if !slices.Contains(attributes, a.Key) || a.Key == "href" && !strings.HasPrefix(a.Val, "https://") {
				r.Fatalf("the HTML contains %s", token)
			}
		}
		if token.Type == html.StartTagToken && token.Data == "h1" {
			heading := ""
			if tokens.Next() == html.TextToken {
				heading = tokens.Token().Data
			}
			if heading != title {
				r.Fatalf("the heading is %q, want %q", heading, title)
			}
		}
	}
}

// An address is either refused or the only recipient.
func FuzzRecipient(f *testing.F) {
	for _, seed := range []string{
		"ada@harbour.example", `"a b>\""@harbour.example`, "a@b.example>\r\nRCPT TO:<eve@b.example", "a@b.c,d@e.f", `"a> SIZE=1"@harbour.example`,
		`"ada lovelace"@harbour.example`, `"a@b"@harbour.example`, `"\"\\"@harbour.example`,
	} {
		f.Add(seed)
	}
	s := start(f)
	sender := s.sender(f)
	f.Fuzz(func(t *testing.T, address string) {
		m := message()
		m.Subscriber.Address = address
		before := len(s.messages())
		err := sender.Send(t.Context(), m)
		if mail.CheckAddress(address) != nil {
			if delivery.KindOf(err) != delivery.Permanent || len(s.messages()) != before {
				t.Fatalf("%q: %v", address, err)
			}
			return
		}
		testkit.Must(t, err)
		all := s.messages()
		want, err := netmail.ParseAddress(address)
		testkit.Must(t, err)
		to, err := netmail.ParseAddressList(parse(t, all[before].text).Header.Get("To"))
		if err != nil || len(all) != before+1 || len(to) != 1 || *to[0] != *want {
			t.Fatalf("%q: %d messages, the last to %v: %v", address, len(all)-before, to, err)
		}
		if got := all[before].to; got != want.Address && got != address {
			t.Fatalf("%q: sent to %q", address, got)
		}
	})
}
