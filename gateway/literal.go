package gateway

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unquoted returns a string literal without its quotes. The functions below take a valid literal in this form.
func unquoted(literal []byte) []byte { return literal[1 : len(literal)-1] }

// textOf returns the text of a literal, and whether it is valid: an unpaired surrogate becomes U+FFFD.
func textOf(s []byte) (text string, valid bool) {
	if bytes.IndexByte(s, '\\') < 0 {
		return string(s), true
	}
	buf, valid := appendText(make([]byte, 0, len(s)), s)
	return string(buf), valid
}

// appendText appends the text of a literal. The results are those of textOf.
func appendText(text, s []byte) (_ []byte, valid bool) {
	valid = true
	for len(s) > 0 {
		if s[0] != '\\' {
			text = append(text, s[0])
			s = s[1:]
			continue
		}
		r, size := unescape(s)
		valid = valid && r >= 0
		text = utf8.AppendRune(text, r) // U+FFFD for -1
		s = s[size:]
	}
	return text, valid
}

// prefixOf returns the prefix of a literal with its first n characters.
func prefixOf(s []byte, n int) []byte {
	end := 0
	for ; n > 0 && end < len(s); n-- {
		_, size := charOf(s[end:])
		end += size
	}
	return s[:end]
}

// charOf returns the first character of s, and its size in s.
func charOf(s []byte) (r rune, size int) {
	if s[0] == '\\' {
		return unescape(s)
	}
	return utf8.DecodeRune(s)
}

// unescape returns the character of the escape at the beginning of s and the size of the escape. It returns -1 for an unpaired surrogate.
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

// codeUnit returns the UTF-16 code unit of the \u escape at the beginning of s, or 0 if there is none.
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
