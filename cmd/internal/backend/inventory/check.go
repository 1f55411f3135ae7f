package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/netresearch/go-cron"

	"opsgate/cmd/internal/backend/service"
	"opsgate/internal/uuid"
)

// Bounds of the texts of a row in bytes. The schema of the database has them for insertions, except
// into teams.
const (
	maxTexts          = 4096
	maxComponentTexts = 1024
)

// cronFields are those of a cron expression in the public API. The parser also takes words such as
// @daily, and time zones.
const cronFields = 5

// check returns all problems of a file, one a line, and completes its defaults.
func (f *File) check(now time.Time) error {
	c := &checker{now: now, seen: map[string]bool{}}
	if len(f.Teams) == 0 {
		c.report("/teams", "there is none")
	}
	eachRow("", reflect.ValueOf(f).Elem(), c.row)
	return f.lines.add(errors.Join(c.problems...))
}

// A checker collects the problems of a file.
type checker struct {
	now      time.Time
	seen     map[string]bool // names, ids and addresses of the lists
	problems []error
}

func (c *checker) report(path, format string, arguments ...any) {
	c.problems = append(c.problems, fmt.Errorf("at '%s': "+format, append([]any{path}, arguments...)...))
}

// row checks the row at an index of a list.
func (c *checker) row(path string, index int, row reflect.Value) {
	texts := maxTexts
	switch r := row.Addr().Interface().(type) {
	case *Group:
		r.Position = cmp.Or(r.Position, index+1)
	case *Scheduled:
		c.cron(path, r.Cron)
	case *Component:
		texts = maxComponentTexts
		r.Position = cmp.Or(r.Position, index+1)
		if r.Monitor == "" {
			r.Status = cmp.Or(r.Status, "operational")
		} else if r.Status != "" {
			c.report(path, "has the status of its monitor: remove status")
		}
	case *Subscriber:
		c.subscriber(path, r)
		return
	}
	c.texts(path, row, texts)
	c.times(path, row)
	h, _ := reflect.TypeAssert[Head](row.Field(0))
	if id, valid := uuid.Canonical(h.ID); h.ID != "" && (!valid || id != h.ID) {
		c.report(path+"/id", "must be a UUID in lower case")
	}
	if name, id := c.repeated(path, "name", h.Name), h.ID != "" && c.repeated(path, "id", h.ID); name || id {
		c.report(path, "another one has the name %q or the id %q", h.Name, h.ID)
	}
}

// repeated reports whether an earlier row of the list has the value.
func (c *checker) repeated(path, what, value string) bool {
	key := path[:strings.LastIndexByte(path, '/')] + " " + what + " " + value
	before := c.seen[key]
	c.seen[key] = true
	return before
}

func (c *checker) cron(path, expression string) {
	_, err := cron.StandardParser().Parse(expression)
	if err == nil && len(strings.Fields(expression)) != cronFields {
		err = errors.New("must be five fields, without a time zone")
	}
	if err != nil {
		c.report(path+"/cron", "%w", err)
	}
}

func (c *checker) subscriber(path string, s *Subscriber) {
	n := s.input("")
	if err := n.Check(); err != nil {
		c.report(path, "%w", err)
	}
	if (s.Email == "") == (s.Webhook == "") || s.Email != "" && s.AllowHTTP {
		c.report(path, "must have either email or webhook, with or without allow_http")
	}
	if s.Webhook != "" {
		s.Webhook = n.NormalisedAddress()
	} else {
		s.Email = n.NormalisedAddress()
	}
	if c.repeated(path, "address", s.Email+s.Webhook) {
		c.report(path, "is the address of another subscriber of the page")
	}
}

// input returns the subscriber in the form of the service.
func (s Subscriber) input(page string) service.NewSubscriber {
	n := service.NewSubscriber{Page: page, Channel: service.ChannelEmail, Address: s.Email, AllowHTTP: s.AllowHTTP}
	if s.Webhook != "" {
		n.Channel, n.Address = service.ChannelWebhook, s.Webhook
	}
	return n
}

// times checks that the times of a row are those of an event: later ones would hide what is
// reported.
func (c *checker) times(path string, row reflect.Value) {
	for field, value := range row.Fields() {
		at, isTime := reflect.TypeAssert[time.Time](value)
		if isTime && !value.IsZero() && (at.Before(time.Unix(0, 0)) || at.After(c.now.Add(service.MaxClockSkew))) {
			c.report(path+"/"+keyOf(field), "must be a time after 1970 and at most a minute ahead")
		}
	}
}

// texts checks all texts that count in the bounds of a row, as they are stored.
func (c *checker) texts(path string, row reflect.Value, most int) {
	texts, tags := "", ""
	for field, value := range row.Fields() {
		switch v := value.Interface().(type) {
		case Head:
			texts += v.Name
		case []string:
			texts += tagsText(v)
			tags = strings.Join(v, "") // whose control characters tagsText escapes
		case string:
			if field.Tag.Get("bound") == "" {
				texts += v
			}
		}
	}
	if len(texts) > most {
		c.report(path, "its texts have %d bytes, the bound is %d", len(texts), most)
	}
	if strings.ContainsFunc(texts+tags, unicode.IsControl) {
		c.report(path, "its texts must have no control characters")
	}
}
