package commandline

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

type manual struct{}

// Run prints the page in the macros of man(7).
func (manual) Run(k *kong.Context, about About) error {
	page := new(page)
	page.write(root(k), about)
	_, err := k.Stdout.Write([]byte(page.String()))
	return err
}

// page builds a manual page.
type page struct{ strings.Builder }

func (p *page) write(program *kong.Node, about About) {
	p.line(`.TH "%s" 1 "%s" "%s %s"`, strings.ToUpper(program.Name), about.Build.Day(), program.Name, about.Build.Version)
	p.line(".nh") // do not hyphenate names of flags and keys
	p.line(".ad l")
	p.section("NAME")
	summary, _, _ := strings.Cut(program.Help, ". ")
	p.text(program.Name + " - " + strings.TrimSuffix(summary, "."))
	p.section("SYNOPSIS")
	p.line(`\fB%s\fR \fIcommand\fR [\fIflags\fR]`, escaped(program.Name))
	p.section("DESCRIPTION")
	p.text(program.Help)
	p.section("COMMANDS")
	for _, command := range program.Leaves(true) {
		p.command(command)
	}
	p.section("FLAGS OF ALL COMMANDS")
	p.flags(program.Flags)
	for _, s := range about.Sections {
		p.section(s.Title)
		p.text(s.Text)
		for _, item := range s.Items {
			p.item(`\fB`+escaped(item.Term)+`\fR`, item.Text)
		}
	}
}

// command writes the section of a command: its usage, help, arguments and flags.
func (p *page) command(n *kong.Node) {
	usage := []string{`\fB` + escaped(n.Path()) + `\fR`}
	for _, argument := range n.Positional {
		usage = append(usage, escaped(argument.Summary()))
	}
	p.line(".SS %s", strings.Join(usage, " "))
	p.text(n.Help)
	for _, argument := range n.Positional {
		p.item(escaped(argument.Summary()), argument.Help)
	}
	for at := n; at.Parent != nil; at = at.Parent {
		p.flags(at.Flags)
	}
}

func (p *page) flags(flags []*kong.Flag) {
	for _, flag := range flags {
		if flag.Hidden {
			continue
		}
		help := flag.Help
		if len(flag.Envs) > 0 {
			help += " Also $" + strings.Join(flag.Envs, ", $") + "."
		}
		if flag.Required {
			help += " Required."
		}
		p.item(`\fB`+escaped(flag.String())+`\fR`, help)
	}
}

func (p *page) section(title string) { p.line(".SH %s", escaped(title)) }

func (p *page) item(term, text string) {
	p.line(".TP")
	p.line("%s", term)
	p.text(text)
}

// text writes a paragraph, or nothing for an empty text.
func (p *page) text(text string) {
	if text != "" {
		p.line("%s", escaped(text))
	}
}

func (p *page) line(format string, values ...any) { fmt.Fprintf(p, format+"\n", values...) }

// escaped escapes text for roff. A dot or an apostrophe at its beginning would make it a request. A hyphen is written as a minus, so that a
// flag can be searched for and copied.
func escaped(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
