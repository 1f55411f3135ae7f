package samples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
)

// quoteShell returns the word in single quotes for a POSIX shell.
func quoteShell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// quote returns a literal that Python, TypeScript, Go and Java read as s: the JSON form, whose
// escapes all of them have.
func quote(s string) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// jsonString matches a string in valid JSON.
var jsonString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// indented returns JSON with one field or element a line. Every line after the first starts with
// the prefix. Its strings have only the escapes of quote: JSON has \/ as well, which Python does
// not have.
func indented(prefix, indent, body string) (string, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(body), prefix, indent); err != nil {
		return "", fmt.Errorf("the body is not JSON: %w", err)
	}
	var failed error
	normal := jsonString.ReplaceAllStringFunc(b.String(), func(literal string) string {
		var s string
		if err := json.Unmarshal([]byte(literal), &s); err != nil {
			failed = err
		}
		text, err := quote(s)
		if err != nil {
			failed = err
		}
		return text
	})
	return normal, failed
}

// Strings have no line breaks and end with a quote, so that in indented JSON a keyword at the end
// of a line is not part of a string, and a quote at the start of a line begins a string.
var (
	keyword  = regexp.MustCompile(`(?m)(^\s*|: )(true|false|null)(,?)$`)
	plainKey = regexp.MustCompile(`(?m)^(\s*)"([A-Za-z][A-Za-z0-9]*)": `)
)

// pythonLiteral returns the Python literal of indented JSON.
func pythonLiteral(body string) string {
	names := strings.NewReplacer("true", "True", "false", "False", "null", "None")
	return keyword.ReplaceAllStringFunc(body, names.Replace)
}

// typeScriptLiteral returns the TypeScript literal of indented JSON, which is a literal already,
// with plain keys.
func typeScriptLiteral(body string) string { return plainKey.ReplaceAllString(body, `$1$2: `) }

// goRaw returns the raw string literal of JSON in Go. It replaces the two characters that such a
// literal must not have, which JSON has only in strings, by their escapes in JSON.
func goRaw(body string) string {
	return "`" + strings.NewReplacer("`", `\u0060`, "\uFEFF", `\ufeff`).Replace(body) + "`"
}

// textBlock returns the content of a Java text block with JSON. Characters beyond ASCII, which JSON
// has only in strings, become escapes of JSON: a compiler before Java 18 may expect another
// encoding than UTF-8.
func textBlock(body string) string {
	var ascii strings.Builder
	for _, r := range body {
		if r < 0x7f {
			ascii.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&ascii, `\u%04x`, unit)
		}
	}
	return strings.NewReplacer(`\`, `\\`, `"""`, `\"""`).Replace(ascii.String())
}
