package mail

import (
	"embed"
	"fmt"
	htmltemplate "html/template"
	netmail "net/mail"
	"strings"
	"text/template"
	"time"
	"unicode"
	"unicode/utf8"

	gomail "github.com/wneessen/go-mail"

	"opsgate/cmd/internal/backend/delivery"
)

// Limits of what a subject contains, in characters.
const (
	maxPageName = 60
	maxTitle    = 140
	maxStatus   = 40
	noLimit     = 1 << 20 // for the body
)

//go:embed templates
var templateFiles embed.FS

// A body has the templates of the two alternatives of a message.
type body struct {
	text *template.Template
	html *htmltemplate.Template
}

func parseBody() body {
	return body{
		text: template.Must(template.ParseFS(templateFiles, "templates/incident.txt")),
		html: htmltemplate.Must(htmltemplate.ParseFS(templateFiles, "templates/incident.html")),
	}
}

// A view is what templates read. All of it is visible text.
type view struct {
	Page, Hostname, PageURL              string
	Heading, Title, Status, Impact, Time string
	Components, Message                  []string
	Manage                               string
}

// compose returns the message as it is sent, which is the same at each attempt. Its errors are of the message, so they are permanent.
func (s *Sender) compose(m delivery.Message) (*gomail.Msg, error) {
	if m.Event != delivery.IncidentCreated && m.Event != delivery.UpdatePosted {
		return nil, fmt.Errorf("unknown event %q", m.Event)
	}
	if err := CheckAddress(m.Subscriber.Address); err != nil {
		return nil, err
	}
	to, err := netmail.ParseAddress(m.Subscriber.Address)
	if err != nil { // CheckAddress is stricter
		return nil, errAddressForm
	}
	v := s.view(m)
	host := token(m.Page.Hostname)
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithBoundary(boundary(m.ID)))
	msg.FromMailAddress(s.from)
	msg.ToMailAddress(to)
	msg.SetMessageIDWithValue(token(m.ID) + "@" + host)
	msg.SetDateWithValue(m.CreatedAt.UTC())
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no out-of-office replies
	msg.SetGenHeader("List-Id", "<"+host+">")
	msg.SetGenHeader(gomail.HeaderListUnsubscribe, "<"+v.Manage+">")
	page, title, status := truncate(v.Page, maxPageName), truncate(v.Title, maxTitle), line(m.Update.Status, maxStatus)
	msg.Subject(headerText("[" + page + "] " + title + ": " + strings.ReplaceAll(status, "_", " ")))
	// No message has this id. It joins the messages of an incident in one thread, also if the subscriber lacks the first.
	thread := "<" + token(m.Incident.ID) + "@" + host + ">"
	msg.SetGenHeader("In-Reply-To", thread)
	msg.SetGenHeader("References", thread)
	return msg, s.body.write(msg, v)
}

func (b body) write(msg *gomail.Msg, v view) error {
	if err := msg.SetBodyTextTemplate(b.text, v); err != nil {
		return fmt.Errorf("write the text: %w", err)
	}
	if err := msg.AddAlternativeHTMLTemplate(b.html, v); err != nil {
		return fmt.Errorf("write the HTML: %w", err)
	}
	return nil
}

func (s *Sender) view(m delivery.Message) view {
	v := view{
		Page:     line(m.Page.Name, noLimit),
		Hostname: line(m.Page.Hostname, noLimit),
		PageURL:  pageURL(s.options.PageURL, m.Page),
		Title:    line(m.Incident.Title, noLimit),
		Status:   word(m.Update.Status),
		Impact:   word(m.Incident.Impact),
		Time:     m.Update.CreatedAt.UTC().Format(time.DateTime) + " UTC",
		Message:  lines(m.Update.Message),
		Manage:   manageURL(s.options.ManageURL, m),
		Heading:  "Update of an incident",
	}
	switch created := m.Event == delivery.IncidentCreated; {
	case created && m.Incident.IsMaintenance:
		v.Heading = "Maintenance"
	case m.Incident.IsMaintenance:
		v.Heading = "Update of maintenance"
	case created:
		v.Heading = "New incident"
	}
	for _, c := range m.Incident.Components {
		v.Components = append(v.Components, line(c.Name, noLimit))
	}
	return v
}

// word returns an enum value as it is shown: "In progress" for in_progress.
func word(value string) string {
	text := strings.ReplaceAll(line(value, noLimit), "_", " ")
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + text[size:]
}
