package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// page is a runbook.
type page struct {
	name   string // of the source
	title  string // text of the heading of level 1
	source []byte
	root   ast.Node
}

// markdown returns the renderer. The content security policy forbids style attributes, so cells are
// aligned by attribute.
func markdown() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	)
}

func parse(name string, source []byte) (*page, error) {
	p := &page{name: name, source: source}
	p.root = markdown().Parser().Parse(text.NewReader(source),
		parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	heading, is := p.root.FirstChild().(*ast.Heading)
	if !is || heading.Level != 1 {
		return nil, errors.New("the first line is not a heading of level 1")
	}
	p.title = string(heading.Lines().Value(source))
	return p, nil
}

// render returns the HTML of a page. known has the names of all pages.
func (p *page) render(known map[string]bool) (string, error) {
	var links []*ast.Link
	err := ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch node := n.(type) {
		case *ast.Link:
			if entering {
				links = append(links, node)
			}
		case *ast.RawHTML, *ast.HTMLBlock:
			return ast.WalkStop, errors.New("there is HTML in the page")
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return "", err
	}
	for _, link := range links {
		if err := p.resolve(link, known); err != nil {
			return "", err
		}
	}
	var b bytes.Buffer
	err = markdown().Renderer().Render(&b, p.source, p.root)
	return b.String(), err
}

// resolve changes a link to another runbook into one to its HTML, and replaces a link to another
// document, which the gateway does not serve, by its text and path.
func (p *page) resolve(link *ast.Link, known map[string]bool) error {
	target := string(link.Destination)
	file, anchor, _ := strings.Cut(target, "#")
	switch {
	case file == "" || strings.Contains(target, "://"):
		return nil
	case known[file]:
		link.Destination = []byte(strings.TrimSuffix(htmlName(file)+"#"+anchor, "#"))
		return nil
	case !strings.HasPrefix(file, "../"):
		return fmt.Errorf("there is no %s", target)
	}
	where, parent := path.Join(sourceDir, target), link.Parent()
	for child := link.FirstChild(); child != nil; child = link.FirstChild() {
		if words, is := child.(*ast.Text); is && string(words.Value(p.source)) == path.Base(file) {
			link.RemoveChild(link, child) // the path below has it
			break
		}
		parent.InsertBefore(parent, link, child)
		if link.FirstChild() == nil {
			where = " (" + where + ")"
		}
	}
	parent.ReplaceChild(parent, link, ast.NewString([]byte(where)))
	return nil
}

// anchors makes the ids of headings as GitHub does, because links in the pages use these. It counts
// the headings by id.
type anchors map[string]int

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)

// Generate implements [parser.IDs].
func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(string(heading)), ""), " ", "-")
	n := a[id]
	a[id]++
	if n > 0 {
		id += "-" + strconv.Itoa(n)
	}
	return []byte(id)
}

// Put implements [parser.IDs]. No heading declares its id.
func (anchors) Put([]byte) {}

// layout is a generated document. The gateway replaces {{style}}, because the policy of its
// response has the hash of the style.
const layout = `<!doctype html>
<!-- Generated from {{source}} by make generate. Do not edit. -->
<html lang="en">
<head>
<meta charset="utf-8">
<title>{{title}} – opsgate</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<style>{{style}}</style>
</head>
<body>
<nav aria-label="Runbooks">{{menu}}</nav>
<main>
{{content}}</main>
</body>
</html>
`

// document returns the complete document of a page.
func (p *page) document(content string, all []*page) []byte {
	return []byte(strings.NewReplacer(
		"{{source}}", sourceDir+"/"+p.name, "{{title}}", html.EscapeString(p.title), "{{menu}}", p.menu(all), "{{content}}",
		content,
	).Replace(layout))
}

// menu returns links to the page of the gateway and to all runbooks.
func (p *page) menu(all []*page) string {
	links := []string{`<a href="/">This gateway</a>`}
	for _, other := range all {
		href := `href="` + htmlName(other.name) + `"`
		if other == p {
			href += ` aria-current="page"`
		}
		text := strings.TrimPrefix(other.title, "Runbook: ")
		links = append(links, "<a "+href+">"+html.EscapeString(strings.ToUpper(text[:1])+text[1:])+"</a>")
	}
	return strings.Join(links, "\n")
}
