package command

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
)

// maxCell is the number of characters of a cell of a table that are shown.
const maxCell = 80

// harmless escapes the characters of a text that a terminal would not print: control characters, bidirectional controls, tags and others
// that change what surrounds them or cannot be seen. The kept ones are not escaped. Invalid UTF-8 becomes U+FFFD.
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

// cell returns a value as text in a line: - for null or an empty text, times in UTC, lists with commas.
func cell(value any) string {
	switch value := value.(type) {
	case time.Time:
		return value.UTC().Format(time.RFC3339)
	case bool:
		if value {
			return "yes"
		}
		return "no"
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "-"
		}
		return cell(v.Elem().Interface())
	case reflect.Slice:
		list := make([]string, v.Len())
		for i := range list {
			list[i] = cell(v.Index(i).Interface())
		}
		value = strings.Join(list, ",")
	}
	return cmp.Or(harmless(fmt.Sprint(value)), "-")
}

// short returns a text that fits into a table.
func short(text string) string {
	if runes := []rune(text); len(runes) > maxCell {
		return string(runes[:maxCell-1]) + "…"
	}
	return text
}
