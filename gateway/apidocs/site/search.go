package site

import (
	"encoding/json"
	"slices"
	"strings"
)

// An entry is a place that the search finds. The names are short because the index has one for each
// field.
type entry struct {
	Title string `json:"t"`
	Place string `json:"p"` // where the entry is, for example "Guides"
	URL   string `json:"u"`
	Text  string `json:"x,omitempty"`
	Words string `json:"k,omitempty"` // what readers call it that its title does not say
	Rank  int    `json:"r"`           // factor of the points of the entry
}

// The ranks of entries.
const (
	rankPage    = 5 // a page or an operation
	rankSection = 4
	rankDetail  = 3 // a field, a header, a section of the overview, or one with a title that several pages have
)

// maxEntryText is the length at which the text of an entry is cut.
const maxEntryText = 2000

// otherWords returns words that readers search for and that the titles do not have, by the URL of
// the entry.
func otherWords() map[string]string {
	return map[string]string{
		"/docs/guides/authentication/":                   "login bearer api key secret",
		"/docs/guides/agents/":                           "mcp opsctl cli llm assistant",
		"/docs/guides/webhooks/":                         "callback hook notification hmac",
		"/docs/guides/changelog/":                        "release news",
		"/docs/guides/rate-limits/":                      "429 throttling backoff retry-after",
		"/docs/guides/idempotency/":                      "duplicate replay twice",
		"/docs/guides/generated-clients/":                "sdk library codegen",
		"/docs/guides/versioning/":                       "breaking deprecation upgrade",
		"/docs/errors/#rate_limited":                     "429 retry too many requests",
		"/docs/reference/incidents/#v1AddIncidentUpdate": "close resolve reopen",
		"/docs/reference/incidents/#v1CreateIncident":    "open report",
	}
}

// searchIndex returns the entries that the script of the pages searches.
func (s *site) searchIndex() ([]byte, error) {
	var entries []entry
	words := otherWords()
	add := func(rank int, title, place, url, text string) {
		text = oneLine(strings.ReplaceAll(text, "`", ""))
		if len(text) > maxEntryText {
			text = strings.ToValidUTF8(text[:maxEntryText], "") + "…"
		}
		entries = append(entries, entry{title, place, url, text, words[url], rank})
	}
	repeated := s.repeatedTitles()
	headers := map[string]bool{}
	for _, v := range s.views {
		place := map[string]string{"overview": "Overview", "guide": "Guides", "reference": "Reference",
			"schemas": "Reference"}[v.Kind]
		add(rankPage, v.Title, place, v.Path, v.Summary)
		for _, section := range v.Article.Sections {
			switch {
			case repeated[section.Title]:
				add(rankDetail, section.Title+": "+v.Title, place, v.Path+"#"+section.ID, section.Text)
			case v.Kind == "overview":
				add(rankDetail, section.Title, v.Title, v.Path+"#"+section.ID, section.Text)
			default:
				add(rankSection, section.Title, v.Title, v.Path+"#"+section.ID, section.Text)
			}
		}
		for _, o := range v.Group.Operations {
			add(rankPage, o.Summary, o.Method+" "+o.Path, v.Path+"#"+o.ID, o.ID+" "+o.Text)
			for _, f := range o.sent() {
				add(rankDetail, f.Name, o.Summary, v.Path+"#"+f.Anchor, f.Text)
			}
			for _, h := range o.Response.Headers {
				if !headers[h.Name] { // most operations have the same ones
					headers[h.Name] = true
					add(rankSection, h.Name, "Response header", v.Path+"#"+h.Anchor, h.Text)
				}
			}
		}
		for _, schema := range v.Schemas {
			for _, f := range schema.Fields {
				add(rankDetail, f.Name, schema.Name, v.Path+"#"+f.Anchor, f.Text+" "+strings.Join(f.Values, " "))
			}
		}
	}
	return json.Marshal(entries)
}

// repeatedTitles returns the titles of sections that several pages have, for example "What can go
// wrong".
func (s *site) repeatedTitles() map[string]bool {
	pages := map[string]int{}
	for _, v := range s.views {
		for _, section := range v.Article.Sections {
			pages[section.Title]++
		}
	}
	repeated := map[string]bool{}
	for title, n := range pages {
		repeated[title] = n > 1
	}
	return repeated
}

// sent returns the parameters of the operation and the fields of its request.
func (o operationView) sent() []field {
	if o.Request == nil {
		return o.Parameters
	}
	return slices.Concat(o.Parameters, o.Request.Fields)
}
