package commandline

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// What the scripts do, which they are told by the last line.
const (
	offerWords       = "words" // those of the lines before
	offerFiles       = "files"
	offerDirectories = "directories"
)

type complete struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints a line for each word that the last of the words may become, with a tab and what it means, and then one that says whether
// files may stand there.
func (c *complete) Run(k *kong.Context) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" { // with which the scripts begin, so that no word is taken for a flag of this command
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	typed, last := words[:len(words)-1], words[len(words)-1]
	line := line{node: root(k), given: map[*kong.Flag]bool{}}
	for _, word := range typed {
		line.read(word)
	}
	offered, offer := line.offer(last)
	for _, o := range offered {
		if strings.HasPrefix(o.word, last) {
			fmt.Fprintf(k.Stdout, "%s\t%s\n", o.word, o.help)
		}
	}
	_, err := fmt.Fprintln(k.Stdout, offer)
	return err
}

// A line is what has been typed, as far as it has been read.
type line struct {
	node      *kong.Node // the command
	arguments int        // of it
	given     map[*kong.Flag]bool
	awaiting  *kong.Flag // whose value the next word is; nil for none
}

// A candidate is what a word may become.
type candidate struct{ word, help string }

// read takes in a word that is complete.
func (l *line) read(word string) {
	switch {
	case l.awaiting != nil:
		l.awaiting = nil
	case strings.HasPrefix(word, "-"):
		name, _, valued := strings.Cut(word, "=")
		flag := l.flag(name)
		if flag == nil {
			return
		}
		l.given[flag] = true
		if !valued && !flag.IsBool() {
			l.awaiting = flag
		}
	default:
		is := func(n *kong.Node) bool { return n.Name == word || slices.Contains(n.Aliases, word) }
		if i := slices.IndexFunc(l.node.Children, is); i >= 0 {
			l.node, l.arguments = l.node.Children[i], 0
			return
		}
		l.arguments++
	}
}

// offer returns what the next word may become, of which a part has been typed.
func (l *line) offer(part string) (offered []candidate, offer string) {
	name, _, valued := strings.Cut(part, "=")
	switch {
	case l.awaiting != nil:
		return values(l.awaiting.Value, "")
	case strings.HasPrefix(part, "-") && valued:
		if flag := l.flag(name); flag != nil {
			return values(flag.Value, name+"=")
		}
		return nil, offerWords
	case strings.HasPrefix(part, "-"):
		for flag := range l.flags() {
			if !l.given[flag] || flag.IsCumulative() {
				offered = append(offered, candidate{"--" + flag.Name, flag.Help})
			}
		}
		return offered, offerWords
	}
	for _, child := range l.node.Children {
		if !child.Hidden {
			offered = append(offered, candidate{child.Name, child.Help})
		}
	}
	if l.arguments < len(l.node.Positional) {
		return values(l.node.Positional[l.arguments], "")
	}
	return offered, offerWords
}

// flags yields those of the command and of what it belongs to.
func (l *line) flags() iter.Seq[*kong.Flag] {
	return func(yield func(*kong.Flag) bool) {
		for _, group := range l.node.AllFlags(true) {
			for _, flag := range group {
				if !yield(flag) {
					return
				}
			}
		}
	}
}

// flag returns the flag of a name with its dashes, or nil.
func (l *line) flag(name string) *kong.Flag {
	for flag := range l.flags() {
		if name == "--"+flag.Name || flag.Short != 0 && name == "-"+string(flag.Short) {
			return flag
		}
	}
	return nil
}

// values returns what a value may be, each after what stands before it in its word.
func values(v *kong.Value, before string) (offered []candidate, offer string) {
	switch v.Tag.PlaceHolder {
	case "FILE":
		return nil, offerFiles
	case "DIR":
		return nil, offerDirectories
	}
	if v.Enum != "" {
		for _, one := range v.EnumSlice() {
			if one != "" {
				offered = append(offered, candidate{before + one, ""})
			}
		}
	}
	return offered, offerWords
}
