package main

import (
	"html"
	"strings"
)

// layout is a generated document. The gateway replaces {{style}}, because the policy of its response has the hash of the style.
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
		"{{source}}", sourceDir+"/"+p.name, "{{title}}", html.EscapeString(p.title), "{{menu}}", p.menu(all), "{{content}}", content,
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
