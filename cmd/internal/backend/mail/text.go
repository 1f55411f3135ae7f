package mail

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// line returns the text as one line of at most limit characters: control characters and line breaks
// become spaces, runs of spaces become one, and bidirectional controls, which could reorder the
// text around them, are removed.
func line(text string, limit int) string {
	return truncate(strings.Join(strings.Fields(strings.Join(lines(text), " ")), " "), limit)
}

// lines returns the lines of the text, in which control characters other than tabs are spaces,
// without bidirectional controls.
func lines(text string) []string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n").Replace(text)
	return strings.Split(strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		case r != '\n' && r != '\t' && unicode.IsControl(r):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError))), "\n")
}

func truncate(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}
