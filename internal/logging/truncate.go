package logging

import "unicode/utf8"

// Truncate shortens s to at most limit bytes, and never within a character.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
