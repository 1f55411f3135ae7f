package decode

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textProblem returns the problem of a text, or "". A valid text has 1 to limit characters, at
// least one of them visible. It has no control characters except line breaks and tabs, and no
// bidirectional controls (docs/integrate/contract.md, "Bodies"). A character is a code point, so a
// letter with a combining mark and an emoji of several parts count as several.
func textProblem(text string, limit int) string {
	n, hasVisible := 0, false
	for _, r := range text {
		if n++; n > limit {
			return fmt.Sprintf("must have at most %d characters (Unicode code points), not %d", limit,
				utf8.RuneCountInString(text))
		}
		switch {
		case unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t':
			return "must not hold control characters other than line breaks and tabs"
		case bidiControl(r):
			return "must not hold bidirectional control characters"
		case !hasVisible:
			hasVisible = visible(r)
		}
	}
	if !hasVisible {
		return "must have a character that can be seen"
	}
	return ""
}

// bidiControl reports whether r begins or ends an embedding, an override or an isolate, which
// display a text in another order. Marks (U+061C, U+200E, U+200F) do not reorder text and are
// allowed.
func bidiControl(r rune) bool { return 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 }

// visible reports whether a character by itself is visible. White space is invisible, and so are
// the characters that Unicode calls default-ignorable: joiners, fillers, selectors, tags and other
// format characters.
func visible(r rune) bool {
	switch r {
	case '\u2800', '\U00013441', '\U00013442', '\U00016fe4', '\U0001d159':
		// blanks and fillers that Unicode classifies as letters, marks or symbols: Braille,
		// Egyptian, Khitan, music
		return false
	}
	if r <= unicode.MaxLatin1 {
		return unicode.IsGraphic(r) && !unicode.IsSpace(r)
	}
	return !unicode.IsSpace(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) &&
		(!unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Prepended_Concatenation_Mark, r))
}

// validText reports whether s is UTF-8 without NUL, which some stores cannot hold.
func validText(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// VisibleASCII reports whether s has 1 to limit characters, all of them visible ASCII.
func VisibleASCII(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// FirstChars returns the first n characters of a text.
func FirstChars(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// oneOfProblem returns the problem of a text that is none of the values: "must be a, b or c".
func oneOfProblem(values []string) string {
	last := len(values) - 1
	return "must be " + strings.Join(values[:last], ", ") + " or " + values[last]
}
