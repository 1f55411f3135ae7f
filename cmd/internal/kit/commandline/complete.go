package commandline

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// The last line of the output is what the script offers.
const (
	offerWords       = "words" // the candidates in the lines before
	offerFiles       = "files"
	offerDirectories = "directories"
)

type complete struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints the candidates for the last word, a line each: the candidate, a tab and its help. The last line is offerWords, offerFiles or
// offerDirectories.
func (c *complete) Run(k *kong.Context) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" { // the scripts add it so that kong parses no word as a flag of this command
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

// A line is the state after the words that precede the last one.
type line struct {
	node      *kong.Node // the command so far
	arguments int        // positional arguments of that command so far
	given     map[*kong.Flag]bool
	pending   *kong.Flag // whose value the next word is; nil for none
}

// A candidate is a completion of the last word.
type candidate struct{ word, help string }

// read updates the state by a complete word.
func (l *line) read(word string) {
	switch {
	case l.pending != nil:
		l.pending = nil
	case strings.HasPrefix(word, "-"):
		name, _, valued := strings.Cut(word, "=")
		flag := l.flag(name)
		if flag == nil {
			return
		}
		l.given[flag] = true
		if !valued && !flag.IsBool() {
			l.pending = flag
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

// offer returns the candidates for the next word, a part of which is typed, and what the script offers.
func (l *line) offer(part string) (offered []candidate, offer string) {
	name, _, valued := strings.Cut(part, "=")
	switch {
	case l.pending != nil:
		return values(l.pending.Value, "")
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

// flags yields the flags of the command and of its parents.
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

// flag returns the flag with this name, which includes its dashes, or nil.
func (l *line) flag(name string) *kong.Flag {
	for flag := range l.flags() {
		if name == "--"+flag.Name || flag.Short != 0 && name == "-"+string(flag.Short) {
			return flag
		}
	}
	return nil
}

// values returns the candidates for a value. Each begins with prefix, the part of the word before the value.
func values(v *kong.Value, prefix string) (offered []candidate, offer string) {
	switch v.Tag.PlaceHolder {
	case "FILE":
		return nil, offerFiles
	case "DIR":
		return nil, offerDirectories
	}
	if v.Enum != "" {
		for _, word := range v.EnumSlice() {
			if word != "" {
				offered = append(offered, candidate{prefix + word, ""})
			}
		}
	}
	return offered, offerWords
}
