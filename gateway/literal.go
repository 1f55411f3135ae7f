package gateway

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unquoted returns what stands between the quotes of a string literal. The functions below read that, of a valid one.
func unquoted(literal []byte) []byte { return literal[1 : len(literal)-1] }

// textOf returns the text of a literal, and whether it is whole: half of a surrogate pair is no character, and becomes U+FFFD.
func textOf(s []byte) (text string, whole bool) {
	if bytes.IndexByte(s, '\\') < 0 {
		return string(s), true
	}
	buf, whole := appendText(make([]byte, 0, len(s)), s)
	return string(buf), whole
}

// appendText appends the text of a literal, as textOf returns it.
func appendText(text, s []byte) (_ []byte, whole bool) {
	whole = true
	for len(s) > 0 {
		if s[0] != '\\' {
			text = append(text, s[0])
			s = s[1:]
			continue
		}
		r, size := unescape(s)
		whole = whole && r >= 0
		text = utf8.AppendRune(text, r) // of -1, U+FFFD
		s = s[size:]
	}
	return text, whole
}

// prefixOf returns the part of a literal that holds its first characters, at most so many.
func prefixOf(s []byte, most int) []byte {
	end := 0
	for ; most > 0 && end < len(s); most-- {
		_, size := charOf(s[end:])
		end += size
	}
	return s[:end]
}

// charOf returns the character that s begins with, and its size in s.
func charOf(s []byte) (r rune, size int) {
	if s[0] == '\\' {
		return unescape(s)
	}
	return utf8.DecodeRune(s)
}

// unescape returns the character of the escape that s begins with and its size, or -1 where it is half of a surrogate pair.
func unescape(s []byte) (r rune, size int) {
	const unit = len(`\u0000`)
	switch s[1] {
	case 'u':
		r = codeUnit(s)
		if !utf16.IsSurrogate(r) {
			return r, unit
		}
		if r = utf16.DecodeRune(r, codeUnit(s[unit:])); r != utf8.RuneError {
			return r, 2 * unit
		}
		return -1, unit
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	return rune(s[1]), 2
}

// codeUnit returns the UTF-16 code unit of the escape that s begins with, or 0 where it begins with no such escape.
func codeUnit(s []byte) (r rune) {
	if len(s) < len(`\u0000`) || s[0] != '\\' || s[1] != 'u' {
		return 0
	}
	for _, c := range s[2:6] {
		r = r<<4 | rune(hexValue(c))
	}
	return r
}

// hexValue returns the value of a hex digit.
func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
