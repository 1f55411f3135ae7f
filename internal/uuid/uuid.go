// Package uuid reads UUIDs in the one form that the API uses.
package uuid

import "strings"

// Canonical returns s in lower case if it is a UUID of the form 8-4-4-4-12, with digits in upper or
// lower case.
func Canonical(s string) (string, bool) {
	if len(s) != 36 {
		return "", false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return "", false
			}
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return "", false
		}
	}
	return strings.ToLower(s), true
}
