package mail

import (
	"errors"
	"strings"
)

// Limits of RFC 5321, section 4.5.3.1. A path of 256 octets includes the angle brackets.
const (
	maxAddress   = 254
	maxLocalPart = 64
	maxLabel     = 63
)

// Errors of [CheckAddress]. They do not contain the address.
var (
	errAddressLength    = errors.New("the email address must have 3 to 254 characters")
	errAddressForm      = errors.New("the email address must have the form name@domain, without a display name")
	errAddressASCII     = errors.New("the email address must be ASCII; write an internationalised domain as xn--… (punycode)")
	errAddressLocalPart = errors.New("the part before the @ must be letters, digits, dots and !#$%&'*+-/=?^_`{|}~, or be quoted, " +
		"and have at most 64 characters")
	errAddressDomain = errors.New("the part after the @ must be a domain name with at least two labels")
)

// CheckAddress returns an error if the text is not a mailbox of RFC 5321, section 4.1.2, to which notifications can be sent.
//
// Stricter than the RFC: the address is ASCII, because messages to other addresses need SMTPUTF8 (RFC 6531) on each server of their
// way; an internationalised domain can be written as xn--…. The domain is a name with at least two labels, not an address literal, so
// that no message is meant for the SMTP server itself or for a machine of its network. Quoted local parts are valid.
func CheckAddress(address string) error {
	if len(address) < len("a@b") || len(address) > maxAddress {
		return errAddressLength
	}
	for i := range len(address) {
		if address[i] >= 0x80 {
			return errAddressASCII
		}
	}
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return errAddressForm
	}
	local, domain := address[:at], address[at+1:]
	if len(local) > maxLocalPart || !isDotString(local) && !isQuotedString(local) {
		return errAddressLocalPart
	}
	if !isDomain(domain) {
		return errAddressDomain
	}
	return nil
}

// isDotString reports whether the text is a Dot-string: atoms separated by dots.
func isDotString(s string) bool {
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" {
			return false
		}
		for i := range len(atom) {
			if !isAlphanumeric(atom[i]) && !strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", rune(atom[i])) {
				return false
			}
		}
	}
	return true
}

// isQuotedString reports whether the text is a Quoted-string with at least one character, in the form that net/mail writes: only quotes
// and backslashes are escaped, so that an address has one form.
func isQuotedString(s string) bool {
	if len(s) < len(`"a"`) || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	content := s[1 : len(s)-1]
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case c < ' ' || c > '~' || c == '"':
			return false
		case c == '\\':
			if i++; i == len(content) || content[i] != '"' && content[i] != '\\' {
				return false
			}
		}
	}
	return true
}

// isDomain reports whether the text is a domain name with at least two labels, of which the last is not a number as in an IP address.
func isDomain(s string) bool {
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !isAlphanumeric(label[i]) && label[i] != '-' {
				return false
			}
		}
	}
	return len(labels) > 1 && strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
