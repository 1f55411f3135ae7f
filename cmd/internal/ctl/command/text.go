package command

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxCell is the number of characters of a cell of a table that are shown.
const maxCell = 80

// harmless escapes the characters of a text that a terminal would not print: control characters,
// bidirectional controls, tags and others that change what surrounds them or cannot be seen. The
// kept ones are not escaped. Invalid UTF-8 becomes U+FFFD.
func harmless(text string, kept ...rune) string {
	return replaceUnprintable(text, func(r rune) string {
		if slices.Contains(kept, r) {
			return string(r)
		}
		quoted := strconv.QuoteToASCII(string(r))
		return quoted[1 : len(quoted)-1]
	})
}

// harmlessJSON returns JSON of the same value in which the same characters are escaped.
func harmlessJSON(text string) string {
	return replaceUnprintable(text, func(r rune) string {
		switch r {
		case '\n':
			return "\n"
		case '\t', '\r': // white space outside of strings, in which they are escaped
			return " "
		}
		var escaped strings.Builder
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&escaped, `\u%04x`, unit)
		}
		return escaped.String()
	})
}

func replaceUnprintable(text string, replacement func(rune) string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(replacement(r))
		}
	}
	return b.String()
}

// cell returns a value of JSON as text in a line: - for null or an empty text, lists with commas.
func cell(value any) string {
	switch value := value.(type) {
	case nil:
		return "-"
	case bool:
		if value {
			return "yes"
		}
		return "no"
	case []any:
		list := make([]string, len(value))
		for i := range list {
			list[i] = cell(value[i])
		}
		return cmp.Or(strings.Join(list, ","), "-")
	case object:
		return jsonLine(value)
	}
	return cmp.Or(harmless(fmt.Sprint(value)), "-")
}

// words returns the words of a name in camel case, in lower case.
func words(name, separator string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteString(separator)
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// short returns a text of at most some characters.
func short(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

const (
	columnGap = 2
	minCell   = 11 // a date and …
)

// fit cuts the cells of a table to a width: those of the widest columns first, but not of the first
// one, which has ids. Then it removes columns before the last one, which is often the title, and
// returns their headings.
func fit(table [][]string, width int) (left []string) {
	for {
		widths := make([]int, len(table[0]))
		total := columnGap * (len(widths) - 1)
		for i := range widths {
			for _, cells := range table {
				widths[i] = max(widths[i], utf8.RuneCountInString(cells[i]))
			}
			total += widths[i]
		}
		for ; total > width; total-- {
			widest := 0
			for i := 1; i < len(widths); i++ {
				if widths[i] > minCell && (widest == 0 || widths[i] > widths[widest]) {
					widest = i
				}
			}
			if widest == 0 {
				break
			}
			widths[widest]--
		}
		last := len(widths) - 1
		if total <= width || last < 2 {
			for _, cells := range table {
				for i := range cells {
					cells[i] = short(cells[i], widths[i])
				}
			}
			return left
		}
		left = append(left, table[0][last-1])
		for i, cells := range table {
			table[i] = slices.Delete(cells, last-1, last)
		}
	}
}
