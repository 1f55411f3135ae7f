package mail

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"opsgate/cmd/internal/backend/delivery"
)

// maxReason is the length of an error, in characters.
const maxReason = 300

// kindOf returns Permanent if the server will not accept the message at a further attempt either:
// it replied with 5xx to the recipient or the message. Replies that ask for authentication (RFC
// 4954), refusals of a recipient by a policy (X.7) or for the sender's address (X.1.7, X.1.8) are
// about the operator's settings, which can be repaired within the lifetime of the message.
func kindOf(err error) delivery.Kind {
	sent, ok := errors.AsType[*gomail.SendError](err)
	if !ok || sent.ErrorCode() < 500 || slices.Contains([]int{530, 534, 535, 538}, sent.ErrorCode()) {
		return delivery.Again
	}
	switch code := sent.EnhancedStatusCode(); sent.Reason {
	case gomail.ErrSMTPRcptTo:
		if strings.HasPrefix(code, "5.7.") || code == "5.1.7" || code == "5.1.8" {
			return delivery.Again
		}
		return delivery.Permanent
	case gomail.ErrSMTPData, gomail.ErrSMTPDataClose, gomail.ErrWriteContent:
		return delivery.Permanent
	default:
		return delivery.Again
	}
}

// mailboxes matches the parts of addresses before their domains.
var mailboxes = regexp.MustCompile(`[^\s<>]+@`)

// failure returns the error of an attempt: one line without credentials, in which addresses have
// only their domains. The text of a reply comes from the server, and often repeats the recipient.
func (s *Sender) failure(err error, address string) error {
	text, _, _ := strings.Cut(line(err.Error(), noLimit), ", affected ") // which the library appends
	for _, secret := range []string{s.options.User, s.options.Password} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	text = mailboxes.ReplaceAllString(text, "…@")
	local, _, _ := strings.Cut(address, "@")
	text = regexp.MustCompile(`(?i)(^|[\s<"':;,(])`+regexp.QuoteMeta(local)+`($|[\s>"':;,.)])`).ReplaceAllString(text,
		"$1…$2")
	return &delivery.Failure{Kind: kindOf(err), Reason: truncate(text, maxReason)}
}
