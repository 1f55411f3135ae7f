package mail

import (
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

// line returns the text as one line of at most limit characters: control characters and line breaks become spaces, runs of spaces become
// one, and bidirectional controls, which could reorder the text around them, are removed.
func line(text string, limit int) string {
	visible := strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return visibleRune(r)
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
	return truncate(strings.Join(strings.Fields(visible), " "), limit)
}

// lines returns the lines of the text, without control characters other than tabs and without bidirectional controls.
func lines(text string) []string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n").Replace(text)
	return strings.Split(strings.Map(visibleRune, strings.ToValidUTF8(text, string(utf8.RuneError))), "\n")
}

// visibleRune returns -1 for a rune that [strings.Map] is to remove.
func visibleRune(r rune) rune {
	if r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
		return -1
	}
	return r
}

func truncate(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

// headerText returns text that a mail client shows as the given text. ASCII that contains the start of an encoded-word (RFC 2047) is
// encoded here: the library would leave it as it is, and a client would show what it encodes.
func headerText(text string) string {
	if !strings.Contains(text, "=?") {
		return text
	}
	const maxContent = 45 // bytes: an encoded-word has at most 75 characters
	var words []string
	for text != "" {
		end := min(maxContent, len(text))
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end--
		}
		words = append(words, "=?UTF-8?b?"+base64.StdEncoding.EncodeToString([]byte(text[:end]))+"?=")
		text = text[end:]
	}
	return strings.Join(words, " ")
}

// token returns the text with only characters that are valid on both sides of a message id and in a boundary.
func token(text string) string {
	const maxToken = 253 // a domain name
	text = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (isAlphanumeric(byte(r)) || r == '-' || r == '.') {
			return r
		}
		return '-'
	}, text)
	if text = strings.Trim(text[:min(len(text), maxToken)], "."); text == "" {
		return "none"
	}
	return strings.ReplaceAll(text, "..", "--")
}

// boundary returns a boundary for the alternatives of a message. An author cannot put it into a text: the id is random, and newer than
// the text.
func boundary(id string) string {
	const maxBoundary = 70 // RFC 2046
	text := "alternative-" + token(id)
	return text[:min(len(text), maxBoundary)]
}
