package opsctl

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// maxCell is the number of characters of a cell of a table that are shown.
const maxCell = 80

// harmless escapes the characters of a text that a terminal would not print: control characters, bidirectional controls and others that
// change what surrounds them.
func harmless(text string) string {
	if !strings.ContainsFunc(text, isHarmful) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isHarmful(r) {
			quoted := strconv.QuoteToASCII(string(r))
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isHarmful(r rune) bool { return !unicode.IsPrint(r) }

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
