package mail

import (
	"errors"
	"regexp"
	"strings"
)

// Limits of RFC 5321, section 4.5.3.1. A path of 256 octets includes the angle brackets.
const (
	maxAddress   = 254
	maxLocalPart = 64
)

var (
	// A dotString is of atoms separated by dots.
	dotString = regexp.MustCompile("^[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+)*$")
	// A quotedString, in ASCII, has at least one character, in the form that net/mail writes: only quotes and backslashes are escaped, so
	// that an address has one form.
	quotedString = regexp.MustCompile(`^"([^[:cntrl:]"\\]|\\["\\])+"$`)
	// A domainName has at least two labels.
	domainName = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)
	// An address, and no name of a host, ends in a number.
	endsInNumber = regexp.MustCompile(`\.[0-9]+$`)
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
	if len(local) > maxLocalPart || !dotString.MatchString(local) && !quotedString.MatchString(local) {
		return errAddressLocalPart
	}
	if !domainName.MatchString(domain) || endsInNumber.MatchString(domain) {
		return errAddressDomain
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
