package apidocs

import (
	"encoding/json"
	"slices"
	"strings"
)

// An entry is a place that the search finds. The names are short because the index has one for each field.
type entry struct {
	Title string `json:"t"`
	Place string `json:"p"` // where the entry is, for example "Guides"
	URL   string `json:"u"`
	Text  string `json:"x,omitempty"`
}

// maxEntryText is the length at which the text of an entry is cut.
const maxEntryText = 2000

// searchIndex returns the entries that the script of the pages searches.
func (s *site) searchIndex() ([]byte, error) {
	var entries []entry
	add := func(title, place, url, text string) {
		text = oneLine(strings.ReplaceAll(text, "`", ""))
		if len(text) > maxEntryText {
			text = strings.ToValidUTF8(text[:maxEntryText], "") + "…"
		}
		entries = append(entries, entry{title, place, url, text})
	}
	for _, v := range s.views {
		place := map[string]string{"overview": "Overview", "guide": "Guides", "reference": "Reference", "schemas": "Reference"}[v.Kind]
		add(v.Title, place, v.Path, v.Summary)
		for _, section := range v.Article.Sections {
			add(section.Title, v.Title, v.Path+"#"+section.ID, section.Text)
		}
		for _, o := range v.Group.Operations {
			add(o.Summary, o.Method+" "+o.Path, v.Path+"#"+o.ID, o.ID+" "+o.Text)
			sent := o.Parameters
			if o.Request != nil {
				sent = slices.Concat(sent, o.Request.Fields)
			}
			for _, f := range sent {
				add(f.Name, o.Summary, v.Path+"#"+f.Anchor, f.Text)
			}
		}
		for _, schema := range v.Schemas {
			for _, f := range schema.Fields {
				add(f.Name, schema.Name, v.Path+"#"+f.Anchor, f.Text+" "+strings.Join(f.Values, " "))
			}
		}
	}
	return json.Marshal(entries)
}
