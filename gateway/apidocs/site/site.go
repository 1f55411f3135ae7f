package site

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"strings"
	texttemplate "text/template"

	"opsgate/gateway/openapi"
)

//go:embed templates
var templateFiles embed.FS

// guideOrder is the order of the guides in the navigation. The page of the guide errors is
// /docs/errors/; overview.md is /docs/.
var guideOrder = []string{
	"quick-start", "authentication", "pagination", "rate-limits", "idempotency", "errors",
	"incremental-sync", "webhooks", "fleet-metrics", "incidents-from-ci", "agents", "generated-clients",
	"versioning", "changelog",
}

// Render returns the pages by path: those below /docs/ that are made from the OpenAPI document and
// the guides, their Markdown forms, the search index and llms.txt. guides has a file for each
// guide.
func Render(openAPI []byte, guides fs.FS) (map[string][]byte, error) {
	s, err := newSite(openAPI, guides)
	if err != nil {
		return nil, err
	}
	return s.pages()
}

// A site makes the pages.
type site struct {
	document *openapi.Document
	files    fs.FS // the guides
	markdown markdown
	layout   *template.Template
	plain    *texttemplate.Template
	Title    string
	Summary  string
	Overview string // in Markdown
	Guides   []*view
	Groups   []group
	views    []*view
}

// A view is one page: what its templates read.
type view struct {
	Site           *site
	Kind           string // name of the template of its content
	Path           string // of the URL; ends with a slash
	Title, Summary string
	Article        article      // overview, guides, errors
	Group          group        // reference
	Schemas        []schemaView // schemas
	Previous, Next *view
	source         []byte // the page in Markdown, if it is not made by a template
}

// MarkdownPath returns the path of the Markdown form.
func (v *view) MarkdownPath() string {
	if v.Path == "/docs/" {
		return "/docs/index.md"
	}
	return strings.TrimSuffix(v.Path, "/") + ".md"
}

func newSite(openAPI []byte, guides fs.FS) (*site, error) {
	d, err := openapi.Read(openAPI)
	if err != nil {
		return nil, err
	}
	s := &site{document: d, files: guides, markdown: newMarkdown(), Title: d.Info.Title, Summary: d.Info.Summary}
	base := func() string { return openapi.PlaceholderURL }
	functions := template.FuncMap{"base": base, "markdown": s.markdown.text}
	s.layout, err = template.New("").Funcs(functions).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	s.plain, err = texttemplate.New("").Funcs(texttemplate.FuncMap{
		"base": base, "join": strings.Join, "oneLine": oneLine,
		"indent": func(f field) string { return strings.Repeat("  ", f.Depth) },
	}).ParseFS(templateFiles, "templates/*.txt")
	if err != nil {
		return nil, err
	}
	if s.Groups, err = s.groups(); err != nil {
		return nil, err
	}
	return s, s.addViews()
}

// addViews makes the list of all pages, in their order.
func (s *site) addViews() error {
	text, err := fs.ReadFile(s.files, "overview.md")
	if err != nil {
		return err
	}
	overview, err := s.markdown.article(text)
	if err != nil {
		return err
	}
	s.Overview = strings.TrimSpace(string(text))
	s.views = []*view{{Kind: "overview", Path: "/docs/", Title: s.Title, Summary: s.Summary, Article: overview}}
	for _, name := range guideOrder {
		guide, err := s.guide(name)
		if err != nil {
			return err
		}
		s.Guides = append(s.Guides, guide)
		s.views = append(s.views, guide)
	}
	for _, g := range s.Groups {
		s.views = append(s.views, &view{Kind: "reference", Path: g.Path, Title: g.Tag, Summary: g.Text, Group: g})
	}
	schemas := s.schemas()
	var sections []section
	for _, schema := range schemas {
		sections = append(sections, section{ID: schema.Name, Title: schema.Name, Level: 2, Text: schema.Text})
	}
	s.views = append(s.views, &view{
		Kind: "schemas", Path: "/docs/schemas/", Title: "Schemas", Summary: "Every object of the API, with its fields.",
		Schemas: schemas, Article: article{Sections: sections},
	})
	for i, v := range s.views {
		v.Site = s
		if i > 0 {
			v.Previous, s.views[i-1].Next = s.views[i-1], v
		}
	}
	return nil
}

func (s *site) guide(name string) (*view, error) {
	source, err := fs.ReadFile(s.files, name+".md")
	if err != nil {
		return nil, err
	}
	a, err := s.markdown.article(source)
	if err != nil {
		return nil, fmt.Errorf("guide %s: %w", name, err)
	}
	v := &view{Kind: "guide", Path: "/docs/guides/" + name + "/", Title: a.Title, Summary: a.Summary, Article: a,
		source: source}
	if name == "errors" {
		v.Path = "/docs/errors/"
	}
	return v, nil
}

// pages returns the pages, their Markdown forms, llms.txt, all Markdown forms as llms-full.txt, and
// the search index.
func (s *site) pages() (map[string][]byte, error) {
	made, full := make(map[string][]byte), new(bytes.Buffer)
	for _, v := range s.views {
		html, err := render(s.layout, "page.html", v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Path, err)
		}
		made[v.Path] = html
		source := v.source
		if source == nil {
			if source, err = render(s.plain, v.Kind+".txt", v); err != nil {
				return nil, fmt.Errorf("%s: %w", v.MarkdownPath(), err)
			}
		}
		made[v.MarkdownPath()] = source
		full.Write(source)
		full.WriteByte('\n')
	}
	llms, err := render(s.plain, "llms.txt", s)
	if err != nil {
		return nil, err
	}
	made["/llms.txt"], made["/llms-full.txt"] = llms, full.Bytes()
	made["/docs/search.json"], err = s.searchIndex()
	return made, err
}

// render executes a template of html/template or text/template.
func render(t interface {
	ExecuteTemplate(w io.Writer, name string, data any) error
}, name string, data any,
) ([]byte, error) {
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Views returns the pages in their order.
func (s *site) Views() []*view { return s.views }

// oneLine joins the lines of a text.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
