package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/netresearch/go-cron"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/service"
)

// Bounds of the texts of a row in bytes. The schema of the database has them for insertions, except into teams.
const (
	maxTexts          = 4096
	maxComponentTexts = 1024
)

// cronFields are those of a cron expression in the public API. The parser also takes words such as @daily, and time zones.
const cronFields = 5

// check returns all problems of a file, one a line, and completes its defaults.
func (f *File) check(now time.Time) error {
	c := &checker{now: now}
	if len(f.Teams) == 0 {
		c.report("/teams", "there is none")
	}
	heads(c, "/teams", f.Teams, maxTexts)
	for i := range f.Teams {
		c.team(fmt.Sprintf("/teams/%d", i), &f.Teams[i])
	}
	return errors.Join(c.problems...)
}

// A checker collects the problems of a file.
type checker struct {
	now      time.Time
	problems []error
}

func (c *checker) report(path, format string, arguments ...any) {
	c.problems = append(c.problems, fmt.Errorf("at '%s': "+format, append([]any{path}, arguments...)...))
}

func (c *checker) team(path string, t *Team) {
	heads(c, path+"/groups", t.Groups, maxTexts)
	heads(c, path+"/servers", t.Servers, maxTexts)
	heads(c, path+"/monitors", t.Monitors, maxTexts)
	heads(c, path+"/pages", t.Pages, maxTexts)
	for i := range t.Groups {
		t.Groups[i].Position = cmp.Or(t.Groups[i].Position, i+1)
	}
	for i, s := range t.Servers {
		path := fmt.Sprintf("%s/servers/%d/scheduled", path, i)
		heads(c, path, s.Scheduled, maxTexts)
		for j, command := range s.Scheduled {
			_, err := cron.StandardParser().Parse(command.Cron)
			if err == nil && len(strings.Fields(command.Cron)) != cronFields {
				err = errors.New("must be five fields, without a time zone")
			}
			if err != nil {
				c.report(fmt.Sprintf("%s/%d/cron", path, j), "%w", err)
			}
		}
	}
	for i := range t.Pages {
		c.page(fmt.Sprintf("%s/pages/%d", path, i), &t.Pages[i])
	}
}

func (c *checker) page(path string, p *Page) {
	heads(c, path+"/components", p.Components, maxComponentTexts)
	for i := range p.Components {
		component := &p.Components[i]
		component.Position = cmp.Or(component.Position, i+1)
		if component.Monitor == "" {
			component.Status = cmp.Or(component.Status, "operational")
		} else if component.Status != "" {
			c.report(fmt.Sprintf("%s/components/%d", path, i), "has the status of its monitor: remove status")
		}
	}
	for i := range p.Subscribers {
		path, s := fmt.Sprintf("%s/subscribers/%d", path, i), &p.Subscribers[i]
		n := s.input("")
		if err := n.Check(); err != nil {
			c.report(path, "%w", err)
		}
		if (s.Email == "") == (s.Webhook == "") || s.Webhook != "" && s.Confirmed || s.Email != "" && s.AllowHTTP {
			c.report(path, "must have either email, with or without confirmed, or webhook, with or without allow_http")
		}
		if s.Webhook != "" {
			s.Webhook = n.NormalisedAddress()
		} else {
			s.Email = n.NormalisedAddress()
		}
		if slices.ContainsFunc(p.Subscribers[:i], s.sameAddress) {
			c.report(path, "is the address of another subscriber of the page")
		}
	}
}

// input returns the subscriber in the form of the service.
func (s Subscriber) input(page string) service.NewSubscriber {
	n := service.NewSubscriber{
		Page: page, Channel: service.ChannelEmail, Address: s.Email, Confirmed: s.Confirmed, AllowHTTP: s.AllowHTTP,
	}
	if s.Webhook != "" {
		n.Channel, n.Address = service.ChannelWebhook, s.Webhook
	}
	return n
}

// An item is a pointer to a row of a list.
type item[T any] interface {
	*T
	head() *Head
}

// heads checks the names, the ids and the texts of a list of rows.
func heads[T any, P item[T]](c *checker, path string, list []T, maxTexts int) {
	names, ids := map[string]bool{}, map[string]bool{}
	for i := range list {
		h := P(&list[i]).head()
		path := fmt.Sprintf("%s/%d", path, i)
		if id, valid := authn.CanonicalUUID(h.ID); h.ID != "" && (!valid || id != h.ID) {
			c.report(path+"/id", "must be a UUID in lower case")
		}
		if names[h.Name] || h.ID != "" && ids[h.ID] {
			c.report(path, "another one has the name %q or the id %q", h.Name, h.ID)
		}
		names[h.Name], ids[h.ID] = true, true
		texts, control := textsOf(reflect.ValueOf(list[i]))
		if len(texts) > maxTexts {
			c.report(path, "its texts have %d bytes, the bound is %d", len(texts), maxTexts)
		}
		c.times(path, reflect.ValueOf(list[i]))
		if control {
			c.report(path, "its texts must have no control characters")
		}
	}
}

// times checks that the times of a row are those of an event: later ones would hide what is reported.
func (c *checker) times(path string, row reflect.Value) {
	for field, value := range row.Fields() {
		at, isTime := reflect.TypeAssert[time.Time](value)
		if isTime && !at.IsZero() && (at.Before(time.Unix(0, 0)) || at.After(c.now.Add(service.MaxClockSkew))) {
			name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			c.report(path+"/"+name, "must be a time after 1970 and at most a minute ahead")
		}
	}
}

// textsOf returns all texts that count in the bounds of a row, as they are stored, and whether they have control characters.
func textsOf(row reflect.Value) (texts string, control bool) {
	for i := range row.NumField() {
		field := row.Type().Field(i)
		switch v := row.Field(i).Interface().(type) {
		case Head:
			texts += v.Name
		case []string:
			texts += tagsText(v)
			control = control || strings.ContainsFunc(strings.Join(v, ""), unicode.IsControl) // which tagsText escapes
		case string:
			if field.Tag.Get("bound") == "" {
				texts += v
			}
		}
	}
	return texts, control || strings.ContainsFunc(texts, unicode.IsControl)
}
