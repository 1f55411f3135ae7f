package command

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"opsgate/cmd/internal/gate/config"
)

// writeJSON prints a value as indented JSON.
func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// write prints a struct as JSON, or as text: its fields as rows, and then its lists of structs as
// tables. Names are those of the JSON, which has the same values.
func write(w io.Writer, asJSON bool, v any) error {
	if asJSON {
		return writeJSON(w, v)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fields := fieldsOf(reflect.Indirect(reflect.ValueOf(v)))
	for _, f := range fields {
		switch {
		case f.isTable() || f.omitted():
		case f.value.Kind() == reflect.Slice:
			for i := range f.value.Len() { // each text has a row
				fmt.Fprintf(t, "%s\t%s\n", f.label, cell("", f.value.Index(i)))
			}
		default:
			fmt.Fprintf(t, "%s\t%s\n", f.label, cell(f.name, f.value))
		}
	}
	for _, f := range fields {
		if f.isTable() && f.value.Len() > 0 {
			writeTable(t, f.value)
		}
	}
	return t.Flush()
}

// writeTable prints a list of structs. It has no column that is empty in all rows and that JSON
// omits.
func writeTable(t io.Writer, list reflect.Value) {
	rows := make([][]field, list.Len())
	for i := range rows {
		rows[i] = fieldsOf(list.Index(i))
	}
	lines := make([][]string, 1+len(rows)) // with the header
	for c, column := range rows[0] {
		if !slices.ContainsFunc(rows, func(row []field) bool { return !row[c].omitted() }) {
			continue
		}
		lines[0] = append(lines[0], strings.ToUpper(column.label))
		for i, row := range rows {
			lines[i+1] = append(lines[i+1], cell(row[c].name, row[c].value))
		}
	}
	fmt.Fprintln(t)
	for _, line := range lines {
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
}

// A field is a field of a struct as JSON has it.
type field struct {
	name, label string
	value       reflect.Value
	mayOmit     bool
}

// inSeconds is the suffix of the names of times in seconds.
const inSeconds = "_seconds"

// fieldsOf returns the fields of a struct, with those of embedded structs in their place.
func fieldsOf(structure reflect.Value) (list []field) {
	for f, value := range structure.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			list = append(list, fieldsOf(value)...)
		case f.IsExported() && name != "-":
			label := strings.ReplaceAll(strings.TrimSuffix(name, inSeconds), "_", " ")
			list = append(list, field{name, label, value, strings.HasPrefix(options, "omit")})
		}
	}
	return list
}

func (f field) isTable() bool {
	return f.value.Kind() == reflect.Slice && f.value.Type().Elem().Kind() == reflect.Struct
}

func (f field) omitted() bool { return f.mayOmit && f.value.IsZero() }

// unknown is the text of a value that is absent.
const unknown = "-"

// cell returns a value as text. The name is that of its field.
func cell(name string, v reflect.Value) string {
	if at, ok := reflect.TypeAssert[time.Time](v); ok && !at.IsZero() {
		return at.Format(time.RFC3339)
	}
	seconds := strings.HasSuffix(name, inSeconds)
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return cell(name, v.Elem())
	case v.Kind() == reflect.Struct:
		return inline(fieldsOf(v))
	case v.Kind() == reflect.Slice && v.Len() > 0:
		texts := make([]string, v.Len())
		for i := range texts {
			texts[i] = cell("", v.Index(i))
		}
		return strings.Join(texts, " ")
	case v.Kind() == reflect.Map && v.Len() > 0:
		return pairs(v)
	case seconds && v.CanFloat():
		return config.DurationText(time.Duration(v.Float() * float64(time.Second)).Round(time.Millisecond))
	case seconds && v.CanInt():
		return config.DurationText(time.Duration(v.Int()) * time.Second)
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'g', 4, 64)
	case v.CanInt(), v.CanUint(), v.Kind() == reflect.Bool:
		return fmt.Sprint(v)
	case v.Kind() == reflect.String && v.Len() > 0:
		return isolated(v.String())
	}
	return unknown
}

// inline returns the fields of a struct that have a value.
func inline(fields []field) string {
	var texts []string
	for _, f := range fields {
		if text := cell(f.name, f.value); text != unknown && !f.omitted() {
			texts = append(texts, f.label+" "+text)
		}
	}
	if len(texts) == 0 {
		return unknown
	}
	return strings.Join(texts, ", ")
}

// pairs returns the entries of a map in the order of their keys.
func pairs(v reflect.Value) string {
	entries := make(map[string]string, v.Len())
	for key, value := range v.Seq2() {
		entries[key.String()] = cell("", value)
	}
	texts := make([]string, 0, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		texts = append(texts, key+"="+entries[key])
	}
	return strings.Join(texts, " ")
}

// isolated returns a text without control characters. If it has letters from right to left, it does
// not change the order of the text after it.
func isolated(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
	if strings.ContainsFunc(text, isRightToLeft) {
		return "\u2068" + text + "\u2069" // first strong isolate, pop directional isolate
	}
	return text
}

// isRightToLeft reports whether a character is in a block of letters that are written from right to
// left.
func isRightToLeft(c rune) bool {
	return c >= 0x590 && c < 0x900 || c >= 0xfb1d && c < 0xfe00 || c >= 0xfe70 && c < 0xff00 ||
		c >= 0x10800 && c < 0x11000 || c >= 0x1e800 && c < 0x1f000
}
