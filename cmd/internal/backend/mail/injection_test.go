package mail_test

import (
	"maps"
	"mime"
	netmail "net/mail"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/mail"
	"opsgate/cmd/internal/test/mailtest"
	"opsgate/internal/testkit"
)

// hostile draws texts that could end a line, a header, a part or a message, or hide what follows.
func hostile(limit int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{
				"\r\n", "\n", "\r", "\r\n\r\n", "\r\n.\r\n", "\r\nBcc: eve@harbour.example\r\n", "\x00", "\x1b", "\u0085", "\u2028", "\u202e",
				"\u2066", `"`, `\`, "<", ">", "@", "=?utf-8?q?=0D=0ABcc:_eve?=", "=?UTF-8?B?DQo=?=", "?=", "=", "=0D=0A", ".", " ", "  ", "\t",
				"é", "日本", "😀", "e\u0301", "\xff", "\xc3", "&lt;", "<script>alert(1)</script>", `"><img src=x>`, "{{.Page}}", "%s", "Slow berths",
				strings.Repeat("x", 1000), strings.Repeat("long words ", 1000), strings.Repeat("日", 10_000),
			}),
			rapid.StringN(0, 20, -1),
		), 0, limit).Draw(t, "parts")
		return strings.Join(parts, "")
	})
}

// No text of a team, and no address, adds or changes a header field, a part, a recipient or markup.
// An address is either refused or the only recipient.
func TestHeaderInjection(t *testing.T) {
	s := start(t)
	sender := s.sender(t)
	rapid.Check(t, func(r *rapid.T) {
		m := message()
		m.Page.Name, m.Incident.Title = hostile(5).Draw(r, "page"), hostile(5).Draw(r, "title")
		m.Page.Hostname, m.Update.Status = hostile(2).Draw(r, "hostname"), hostile(1).Draw(r, "status")
		m.Incident.Impact, m.Update.Message = hostile(1).Draw(r, "impact"), hostile(10).Draw(r, "message")
		m.Incident.Components[0].Name = hostile(3).Draw(r, "component")
		m.Event = rapid.SampledFrom([]string{delivery.IncidentCreated, delivery.UpdatePosted}).Draw(r, "event")
		if rapid.Bool().Draw(r, "hostile address") {
			m.Subscriber.Address = hostile(2).Draw(r, "before the @") + "a@b.example" + hostile(1).Draw(r, "after the domain")
		}
		before := len(s.messages())
		err := sender.Send(t.Context(), m)
		all := s.messages()
		if mail.CheckAddress(m.Subscriber.Address) != nil {
			if delivery.KindOf(err) != delivery.Permanent || len(all) != before {
				r.Fatalf("%q: %v", m.Subscriber.Address, err)
			}
			return
		}
		testkit.Must(r, err)
		if len(all) != before+1 || all[before].To != m.Subscriber.Address {
			r.Fatalf("%d messages, the last to %s", len(all)-before, all[len(all)-1].To)
		}
		checkMessage(t, r, all[before])
	})
}

// checkMessage reads a message as a client does.
func checkMessage(t *testing.T, r *rapid.T, got mailtest.Message) {
	t.Helper()
	for line := range strings.SplitSeq(string(got.Text), "\r\n") {
		if len(line) > 998 || strings.ContainsAny(line, "\r\n\x00") || strings.ContainsFunc(line, func(c rune) bool { return c >= 0x80 }) {
			r.Fatalf("the line %q", line)
		}
	}
	parsed := parse(t, got.Text)
	names := slices.Sorted(maps.Keys(parsed.Header))
	if want := []string{
		"Auto-Submitted", "Content-Type", "Date", "From", "In-Reply-To", "List-Id", "List-Unsubscribe",
		"Message-Id", "Mime-Version", "References", "Subject", "To",
	}; !slices.Equal(names, want) {
		r.Fatalf("the header fields are %q", names)
	}
	for name, values := range parsed.Header {
		text, err := new(mime.WordDecoder).DecodeHeader(values[0])
		if err != nil || len(values) != 1 || strings.ContainsFunc(text, unicode.IsControl) {
			r.Fatalf("%s: %q: %v", name, values, err)
		}
	}
	if to, err := netmail.ParseAddressList(parsed.Header.Get("To")); err != nil || len(to) != 1 || to[0].Address != got.To {
		r.Fatalf("to %v: %v", to, err)
	}
	_, markup := alternatives(t, parsed)
	checkMarkup(r, markup)
}

// checkMarkup checks that the HTML has only elements and attributes of the templates.
func checkMarkup(r *rapid.T, markup string) {
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
	}
}
