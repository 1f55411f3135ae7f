package site

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A markdown renders Markdown with tables. Raw HTML is left out.
type markdown struct{ goldmark.Markdown }

func newMarkdown() markdown {
	return markdown{goldmark.New(
		// not by style=
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(blocks{}, 100))),
	)}
}

// An article is rendered Markdown.
type article struct {
	Title    string // text of the heading of level 1, which HTML leaves out
	Summary  string // text of the first paragraph
	HTML     template.HTML
	Sections []section // headings of level 2 and 3, with the text below them
}

type section struct {
	ID, Title string
	Level     int
	Text      string
}

// article renders a whole page.
func (m markdown) article(source []byte) (article, error) {
	root := m.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(headingIDs{}))))
	a := article{}
	for n := root.FirstChild(); n != nil; {
		next := n.NextSibling()
		heading, isHeading := n.(*ast.Heading)
		switch {
		case isHeading && heading.Level == 1:
			a.Title = plainText(n, source)
			root.RemoveChild(root, n)
		case isHeading:
			a.Sections = append(a.Sections, section{ID: idOf(heading), Title: plainText(n, source), Level: heading.Level})
		case a.Summary == "" && n.Kind() == ast.KindParagraph:
			a.Summary = plainText(n, source)
		}
		if last := len(a.Sections) - 1; last >= 0 && !isHeading {
			a.Sections[last].Text = strings.TrimSpace(a.Sections[last].Text + " " + plainText(n, source))
		}
		n = next
	}
	rendered, err := m.render(root, source)
	a.HTML = rendered
	return a, err
}

// text renders a description inside a page.
func (m markdown) text(source string) (template.HTML, error) {
	return m.render(m.Parser().Parse(text.NewReader([]byte(source))), []byte(source))
}

func (m markdown) render(root ast.Node, source []byte) (template.HTML, error) {
	var b bytes.Buffer
	if err := m.Renderer().Render(&b, source, root); err != nil {
		return "", fmt.Errorf("rendering Markdown: %w", err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // from embedded files; raw HTML in them is left out
}

// plainText returns the text of a node without its markup.
func plainText(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch node := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(node.Segment.Value(source))
				if node.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			return ast.WalkSkipChildren, nil
		default:
			if !entering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

func idOf(heading *ast.Heading) string {
	id, _ := heading.AttributeString("id")
	value, _ := id.([]byte)
	return string(value)
}

// headingIDs makes the id of a heading from its text: letters, digits and underscores remain, so
// that the id of an error code is the code.
type headingIDs map[string]bool

func (ids headingIDs) Generate(value []byte, _ ast.NodeKind) []byte {
	base := slug(string(value))
	id := base
	for i := 2; ids[id]; i++ {
		id = base + "-" + strconv.Itoa(i)
	}
	ids[id] = true
	return []byte(id)
}

func (ids headingIDs) Put(value []byte) { ids[string(value)] = true }

// slug returns a text in the form of a path segment or an id.
func slug(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			b.WriteRune(r)
		case r == ' ', r == '-', r == '/':
			if !strings.HasSuffix(b.String(), "-") {
				b.WriteByte('-')
			}
		}
	}
	return strings.Trim(b.String(), "-")
}

// blocks renders headings as links to themselves, code in boxes, and tables in boxes that scroll by
// keyboard.
type blocks struct{}

func (blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, renderHeading)
	r.Register(ast.KindFencedCodeBlock, renderCode)
	r.Register(ast.KindCodeBlock, renderCode)
	r.Register(extast.KindTable, renderTable)
}

func renderHeading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	heading, _ := n.(*ast.Heading)
	if entering {
		id := util.EscapeHTML([]byte(idOf(heading)))
		_, _ = fmt.Fprintf(w, `<h%d id="%s"><a class="anchor" href="#%s">`, heading.Level, id, id)
	} else {
		_, _ = fmt.Fprintf(w, "</a></h%d>\n", heading.Level)
	}
	return ast.WalkContinue, nil
}

// renderCode renders a block of code. The language is followed by attributes: title="NAME" names
// the file, answer="REQUEST" the request that the block answers. What has a language can be copied;
// what has none is the text of a terminal or a pattern.
func renderCode(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	var info string
	if fenced, ok := n.(*ast.FencedCodeBlock); ok && fenced.Info != nil {
		info = string(fenced.Info.Value(source))
	}
	caption := attribute(info, "title")
	if answer := attribute(info, "answer"); answer != "" {
		caption = "Response to " + answer
	}
	language, _, _ := strings.Cut(info, " ")
	caption = cmp.Or(caption, language)
	_, _ = w.WriteString(`<div class="code"`)
	if info != "" {
		_, _ = w.WriteString(` data-copy`)
	}
	_ = w.WriteByte('>')
	if caption != "" {
		_, _ = fmt.Fprintf(w, `<p class="caption">%s</p>`, util.EscapeHTML([]byte(caption)))
	}
	_, _ = w.WriteString(`<pre><code>`)
	_, _ = w.Write(util.EscapeHTML(bytes.TrimSpace(n.Lines().Value(source))))
	_, _ = w.WriteString("</code></pre></div>\n")
	return ast.WalkSkipChildren, nil
}

// attribute returns the value of name="value" in the line that begins a block of code.
func attribute(info, name string) string {
	_, rest, found := strings.Cut(info, " "+name+`="`)
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

func renderTable(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>` + "\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}
