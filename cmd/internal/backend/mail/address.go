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
	// A mailbox has a local part of atoms separated by dots, and a domain name of at least two
	// labels.
	mailbox = regexp.MustCompile("^[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+)*" +
		`@([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)
	// An address, and no name of a host, ends in a number.
	endsInNumber = regexp.MustCompile(`\.[0-9]+$`)
)

// CheckAddress returns an error, which does not contain the address, if notifications cannot be
// sent to it.
//
// It is stricter than RFC 5321, section 4.1.2. The address is ASCII, because messages to other
// addresses need SMTPUTF8 (RFC 6531) on each server of their way; an internationalised domain can
// be written as xn--…. The domain is a name with at least two labels, not an address literal, so
// that no message is meant for the SMTP server itself or for a machine of its network. The local
// part is not quoted.
func CheckAddress(address string) error {
	if len(address) > maxAddress || strings.IndexByte(address, '@') > maxLocalPart ||
		!mailbox.MatchString(address) || endsInNumber.MatchString(address) {
		return errors.New("the email address must have the form name@domain in ASCII, with at most 64 and 254 characters, " +
			"and a domain of " +
			"at least two labels; write an internationalised domain as xn--… (punycode)")
	}
	return nil
}
