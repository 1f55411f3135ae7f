package decode

import (
	"testing"
	"unicode"

	"opsgate/gateway/jsonw"
)

func TestTextNeedsAVisibleCharacter(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "white space": " \t\n\r\u00a0\u2003\u3000\u2028", "zero width space": "\u200b", "zero width joiner": "\u200d",
		"soft hyphen": "\u00ad", "grapheme joiner": "\u034f", "Arabic letter mark": "\u061c", "Hangul fillers": "\u115f\u1160\u3164\uffa0",
		"Khmer vowels": "\u17b4\u17b5", "Mongolian separators": "\u180b\u180e\u180f", "direction marks": "\u200e\u200f", "word joiner": "\u2060",
		"invisible operators": "\u2061\u2062\u2063\u2064", "unassigned default-ignorable": "\u2065\ufff0", "deprecated format": "\u206a\u206f",
		"Braille blank": "\u2800", "variation selectors": "\ufe00\ufe0f\U000e0100", "byte order mark": "\ufeff", "annotation": "\ufff9\ufffa\ufffb",
		"shorthand format": "\U0001bca0", "music": "\U0001d159\U0001d173", "tags": "\U000e0001\U000e0041\U000e007f", "Khitan filler": "\U00016fe4",
		"Egyptian format and blanks": "\U00013430\U00013441\U00013442",
	} {
		if problem := textProblem(text, 255); problem != "must have a character that can be seen" {
			t.Errorf("%s: %q", name, problem)
		}
		if problem := textProblem(text+"x"+text, 255); problem != "" {
			t.Errorf("%s around a letter: %q", name, problem)
		}
	}
	for _, text := range []string{"x", "ä", "語", "😀", "❤\ufe0f", "👩\u200d🚒", "\u0600", "\u0301", "\u2801", "\ufffd", "ａ", "한", "\ue000"} {
		if problem := textProblem(text, 255); problem != "" {
			t.Errorf("%q: %q", text, problem)
		}
	}
}

// So the size of a response follows from the bytes that a service stores.
func TestValidTextAtMostDoublesInAResponse(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		text := "x" + string(r)
		if textProblem(text, 2) != "" {
			continue
		}
		var w jsonw.Writer
		w.BeginObject()
		w.String("", text)
		w.EndObject()
		if grown, stored := len(w.Bytes())-len(`{"":"x"}`), len(text)-1; grown > 2*stored {
			t.Errorf("%U takes %d bytes, and %d in a response", r, stored, grown)
		}
	}
}

func TestTextRejectsControlCharacters(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if 0xd800 <= r && r <= 0xdfff {
			continue
		}
		control := r < ' ' && r != '\n' && r != '\r' && r != '\t' || 0x7f <= r && r <= 0x9f
		direction := 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069
		want := ""
		switch {
		case control:
			want = "must not hold control characters other than line breaks and tabs"
		case direction:
			want = "must not hold bidirectional control characters"
		}
		if got := textProblem("x"+string(r)+"x", 255); got != want {
			t.Fatalf("%U: %q, want %q", r, got, want)
		}
	}
}
