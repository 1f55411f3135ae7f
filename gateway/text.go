package gateway

import (
	"fmt"
	"unicode"
)

// textProblem returns what is wrong with a text for people, or "". It has 1 to most characters, of which one at least is visible. Line
// breaks and tabs are its only control characters, and it cannot change the direction of the text around it (decisions, "Requests").
// No more characters are looked at than a text may have.
func textProblem(text string, most int) string {
	n, seen := 0, false
	for _, r := range text {
		if n++; n > most {
			return fmt.Sprintf("must have at most %d characters", most)
		}
		switch {
		case unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t':
			return "must not hold control characters other than line breaks and tabs"
		case bidiControl(r):
			return "must not hold bidirectional control characters"
		case !seen:
			seen = visible(r)
		}
	}
	if !seen {
		return "must have a character that can be seen"
	}
	return ""
}

// bidiControl says whether r is an embedding, an override, an isolate, or the end of one: with those, a text can be shown in another
// order than it has. Marks (U+061C, U+200E, U+200F) reorder nothing and are needed.
func bidiControl(r rune) bool { return 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 }

// visible says whether a character, by itself, leaves a mark. White space does not, nor what Unicode calls default-ignorable: joiners,
// fillers, selectors, tags and other characters of format.
func visible(r rune) bool {
	switch r {
	case '\u2800', '\U00013441', '\U00013442', '\U00016fe4', '\U0001d159':
		return false // blanks and fillers which Unicode has among letters, marks and symbols: of Braille, Egyptian, Khitan and music
	}
	if r <= unicode.MaxLatin1 {
		return unicode.IsGraphic(r) && !unicode.IsSpace(r)
	}
	return !unicode.IsSpace(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) &&
		(!unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Prepended_Concatenation_Mark, r))
}
