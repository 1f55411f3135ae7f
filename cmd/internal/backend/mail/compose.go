package mail

import (
	"embed"
	"errors"
	"fmt"
	netmail "net/mail"
	"strings"
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

// A view is what templates read. All of it is visible text.
type view struct {
	Page, Hostname, PageURL              string
	Heading, Title, Status, Impact, Time string
	Components, Message                  []string
	Manage                               string
}

// compose returns the message as it is sent. Its errors are of the message, so they are permanent.
func (s *Sender) compose(m delivery.Message) (*gomail.Msg, error) {
	if m.Event != delivery.IncidentCreated && m.Event != delivery.UpdatePosted {
		return nil, fmt.Errorf("unknown event %q", m.Event)
	}
	if err := CheckAddress(m.Subscriber.Address); err != nil {
		return nil, err
	}
	v := s.view(m)
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(s.from)
	msg.ToMailAddress(&netmail.Address{Address: m.Subscriber.Address})
	msg.SetMessageIDWithValue(m.ID + "@" + s.domain) // the same at each attempt, so that receivers recognise a repeat
	msg.SetDateWithValue(m.CreatedAt.UTC())
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no out-of-office replies
	msg.SetGenHeader("List-Id", "<"+m.Page.ID+"."+s.domain+">")
	msg.SetGenHeader(gomail.HeaderListUnsubscribe, "<"+v.Manage+">")
	page, title, status := truncate(v.Page, maxPageName), truncate(v.Title, maxTitle), line(m.Update.Status, maxStatus)
	subject := "[" + page + "] " + title + ": " + strings.ReplaceAll(status, "_", " ")
	// The library leaves an encoded-word (RFC 2047) as it is, and a client would show what it
	// encodes.
	msg.Subject(strings.ReplaceAll(subject, "=?", "= ?"))
	// No message has this id. It joins the messages of an incident in one thread, also if the
	// subscriber lacks the first.
	thread := "<" + m.Incident.ID + "@" + s.domain + ">"
	msg.SetGenHeader("In-Reply-To", thread)
	msg.SetGenHeader("References", thread)
	return msg, errors.Join(msg.SetBodyTextTemplate(s.text, v), msg.AddAlternativeHTMLTemplate(s.html, v))
}

func (s *Sender) view(m delivery.Message) view {
	v := view{
		Page:     line(m.Page.Name, noLimit),
		Hostname: line(m.Page.Hostname, noLimit),
		PageURL:  expand(s.options.PageURL, m),
		Title:    line(m.Incident.Title, noLimit),
		Status:   word(m.Update.Status),
		Impact:   word(m.Incident.Impact),
		Time:     m.Update.CreatedAt.UTC().Format(time.DateTime) + " UTC",
		Message:  lines(m.Update.Message),
		Manage:   expand(s.options.ManageURL, m),
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
