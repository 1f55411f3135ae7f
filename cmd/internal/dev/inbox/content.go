package inbox

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	"net/mail"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Detail is a message with its content.
type Detail struct {
	Summary

	Headers []Header `json:"headers"` // in the order of the message
	Raw     string   `json:"raw"`
	// Text is the plain text of an email, or the indented JSON of a webhook.
	Text string `json:"text"`
	// HTML is the URL path of the HTML part of an email; "" for none.
	HTML string `json:"html,omitzero"`
	// Unsubscribe is the path of the one-click link of an email (RFC 8058); "" if it has none on this inbox.
	Unsubscribe string `json:"unsubscribe,omitzero"`
	// Timestamp is the header webhook-timestamp.
	Timestamp string `json:"timestamp,omitzero"`
}

// A Header is a header field, decoded for people.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// detail returns the message with its content. The base is the URL of the inbox.
func (m *message) detail(base string) Detail {
	d := Detail{Summary: m.Summary, Headers: headers(m.raw), Raw: readable(m.raw)}
	if m.Channel == email {
		text, html := m.parts()
		d.Text, d.Unsubscribe = readable(text), d.unsubscribe(base)
		if html != nil {
			d.HTML = "/messages/" + number(m.Number) + "/html"
		}
		return d
	}
	d.Timestamp = d.header("Webhook-Timestamp")
	indented := new(bytes.Buffer)
	if json.Indent(indented, m.raw[m.body:], "", "  ") == nil {
		d.Text = readable(indented.Bytes())
	} else {
		d.Text = readable(m.raw[m.body:])
	}
	return d
}

// readable returns valid UTF-8, as JSON needs it.
func readable(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// headers returns the header fields of an email or of an HTTP request, which begins with a line without a colon.
func headers(raw []byte) (list []Header) {
	list = []Header{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		name, value, found := strings.Cut(line, ":")
		switch {
		case line[0] == ' ' || line[0] == '\t':
			if n := len(list); n > 0 {
				list[n-1].Value += line
			}
		case found && !strings.Contains(name, " "):
			list = append(list, Header{Name: name, Value: strings.TrimSpace(value)})
		}
	}
	for i := range list {
		list[i].Value = readable([]byte(decodeHeader(list[i].Value)))
	}
	return list
}

// header returns the value of a header field; "" for none.
func (d *Detail) header(name string) string {
	i := slices.IndexFunc(d.Headers, func(h Header) bool { return strings.EqualFold(h.Name, name) })
	if i < 0 {
		return ""
	}
	return d.Headers[i].Value
}

// unsubscribe returns the path of the one-click link if the link is on this inbox.
func (d *Detail) unsubscribe(base string) string {
	if !strings.EqualFold(d.header("List-Unsubscribe-Post"), "List-Unsubscribe=One-Click") {
		return ""
	}
	for entry := range strings.SplitSeq(d.header("List-Unsubscribe"), ",") {
		link := strings.Trim(entry, " <>")
		if u, err := url.Parse(link); err == nil && strings.HasPrefix(link, base+"/") {
			return u.EscapedPath()
		}
	}
	return ""
}

// maxDepth bounds the nesting of parts, and maxParts their number in one email.
const (
	maxDepth = 4
	maxParts = 32
)

// parts returns the first plain text and the first HTML of an email, decoded; nil for none.
func (m *message) parts() (text, html []byte) {
	parsed, err := mail.ReadMessage(bytes.NewReader(m.raw))
	if err != nil {
		return m.raw, nil
	}
	f := &finder{left: maxParts}
	f.find(textproto.MIMEHeader(parsed.Header), parsed.Body, 0)
	return f.text, f.html
}

// A finder looks for the parts of an email.
type finder struct {
	text, html []byte
	left       int // how many parts it may still read
}

func (f *finder) find(header textproto.MIMEHeader, body io.Reader, depth int) {
	kind, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		kind = "text/plain"
	}
	if strings.HasPrefix(kind, "multipart/") {
		for reader := multipart.NewReader(body, parameters["boundary"]); depth < maxDepth && f.left > 0; f.left-- {
			part, err := reader.NextRawPart()
			if err != nil {
				return
			}
			f.find(part.Header, part, depth+1)
		}
		return
	}
	switch {
	case kind == "text/plain" && f.text == nil:
		f.text = decode(header, body)
	case kind == "text/html" && f.html == nil:
		f.html = decode(header, body)
	}
}

// decode returns the content of a part. It is empty rather than nil, and complete up to an error of its encoding.
func decode(header textproto.MIMEHeader, body io.Reader) []byte {
	switch strings.ToLower(header.Get("Content-Transfer-Encoding")) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	content, _ := io.ReadAll(body)
	return content
}

// event returns the event and the status page of a webhook's body, as far as it has them.
func event(body []byte) (subject, page string) {
	var payload struct {
		Type string `json:"type"`
		Data struct {
			StatusPage struct {
				Name string `json:"name"`
			} `json:"statusPage"`
			Incident struct {
				Title string `json:"title"`
			} `json:"incident"`
			Update struct {
				Status string `json:"status"`
			} `json:"update"`
		} `json:"data"`
	}
	if !utf8.Valid(body) || json.Unmarshal(body, &payload) != nil || payload.Type == "" {
		return "(not an event)", ""
	}
	subject = payload.Type
	if title := payload.Data.Incident.Title; title != "" {
		subject += ": " + title
	}
	if status := payload.Data.Update.Status; status != "" {
		subject += ": " + status
	}
	return subject, payload.Data.StatusPage.Name
}

// serveHTML serves the HTML part of an email, without scripts, forms or anything from another host.
func (m *message) serveHTML(w http.ResponseWriter) bool {
	_, html := m.parts()
	if m.Channel != email || html == nil {
		return false
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "sandbox "+sandbox+"; default-src 'none'; style-src 'unsafe-inline'; img-src data:;"+
		" base-uri 'none'; form-action 'none'; frame-ancestors 'self'")
	_, _ = w.Write(append([]byte("<!doctype html><base target=\"_blank\">\n"), html...)) // fails only if the client has disconnected
	return true
}

// sandbox lets a link in an email open a new tab, which is not restricted itself: the pages of subscriptions have a form.
const sandbox = "allow-popups allow-popups-to-escape-sandbox"
